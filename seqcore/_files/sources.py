"""Find the files that a path, a folder or a pattern stands for."""

import contextlib
import errno
import glob
import json
import os
import re

from seqcore._arguments.shown import shown

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # not the letter of a drive


def check_local(name, what, remedy):
    """Raise if a path is empty, or an address; `what` says what is done with files, `remedy` what to do."""
    if not name:
        raise FileNotFoundError(errno.ENOENT, "the path is empty", name)
    if _ADDRESS.match(name) and not os.path.exists(os.path.dirname(name)):
        if name.startswith("file:"):
            remedy = "pass the path alone"
        raise ValueError(f"{name} is an address, but {what} files on a disk: {remedy}")


def files_of(path):
    """Return the files of a path, in the order of their names.

    Raises
    ------
    FileNotFoundError
        If the path is empty, a folder has no `*.arrow` file, or nothing matches a pattern.
    ValueError
        If it is an address of a network.
    """
    name = os.fsdecode(path)
    if "\0" in name:
        raise ValueError(
            f"expected the path of a file, got {shown(path)}: write the data to a file, or read it with "
            "pyarrow and pass the table to Columns.from_arrow"
        )
    check_local(
        name,
        "load maps",
        "copy the file to a disk first, for example with fsspec.open or the program of the service",
    )
    if os.path.isdir(name):
        listed = _files_of_dataset(name)
        if listed is not None:
            return listed
        # Not by glob, which takes a folder for empty that may not be read.
        names = sorted(one for one in os.listdir(name) if one.endswith(".arrow") and not one.startswith("."))
        found = [os.path.join(name, one) for one in names]
        if not found:
            raise FileNotFoundError(errno.ENOENT, "there is no *.arrow file in this folder", name)
        return found
    if glob.has_magic(name) and not os.path.lexists(name):
        found = sorted(one for one in glob.glob(name, recursive=True) if not os.path.isdir(one))
        if not found:
            _check_readable(name)
            raise FileNotFoundError(errno.ENOENT, "no file matches this pattern", name)
        return found
    return [path]


def _files_of_dataset(folder):
    """Return the files of a folder that Hugging Face's datasets saved, or None.

    Beside them, the folder has those of maps and filters (cache-*.arrow), and may have older ones.
    """
    state = _json_in(folder, "state.json")
    if "_data_files" in state:
        if state.get("_indices_data_files") or state.get("_indices_files"):
            raise ValueError(
                f"{folder} has a data set with selected rows, from an old version of datasets: save it again "
                "with load_from_disk(folder).flatten_indices().save_to_disk(another_folder)"
            )
        try:
            names = [file["filename"] for file in state["_data_files"]]
            is_sound = all(name == os.path.basename(name) != "" for name in names)
        except (TypeError, KeyError):
            is_sound = False
        if not is_sound:
            raise ValueError(
                f"{os.path.join(folder, 'state.json')} is damaged: it must name the files of the data set"
            )
        if not names:
            raise FileNotFoundError(
                errno.ENOENT, "the data set in this folder has no rows and no file", folder
            )
        return [os.path.join(folder, name) for name in names]
    splits = _json_in(folder, "dataset_dict.json").get("splits")
    if splits is None:
        # A folder of the cache, with all splits side by side.
        splits = _json_in(folder, "dataset_info.json").get("splits")
        if splits is None:
            return None
        raise ValueError(
            f"{folder} is a cache of datasets with the splits {_listed(splits)}: load the files of one, for "
            f"example with the pattern {os.path.join(folder, '*-train*.arrow')}, or save the data set with "
            "save_to_disk"
        )
    first = next(iter(splits), "train") if isinstance(splits, list | dict) else "train"
    raise ValueError(
        f"{folder} is a data set of several splits ({_listed(splits)}): load one of them, for example "
        f"{os.path.join(folder, str(first))}"
    )


def _listed(splits):
    return ", ".join(map(str, splits)) if isinstance(splits, list | dict) else shown(splits)


def _json_in(folder, name):
    """Return the object in a file of JSON, an empty one if there is no such file."""
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, IsADirectoryError):
        return {}
    except (ValueError, RecursionError) as error:
        # Without it nobody knows which files of the folder are the data set's, and which are its caches.
        raise ValueError(
            f"{path} is damaged, it isn't JSON ({error}): restore it, or load files by a pattern, such as "
            f"{os.path.join(folder, 'data-*.arrow')}"
        ) from None
    return found if isinstance(found, dict) else {}


def _check_readable(pattern):
    """Raise a PermissionError if the folder that a pattern begins with may not be read, as glob doesn't."""
    folder = pattern
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.scandir(folder or os.curdir).close()
