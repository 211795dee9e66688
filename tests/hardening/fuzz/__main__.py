"""`python -m hardening.fuzz TARGET …`: fuzz a target, or run it on files; README.md says how."""

import importlib
import sys
from pathlib import Path

TARGETS = ("edits", "splits", "pickles", "protos", "models")


def write_seeds(target, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(target.seeds()):
        (folder / f"seed{i:04}").write_bytes(data)


def replay(target, paths):
    """Run a target on files and on those in folders, without Atheris; the first fault ends it."""
    for path in map(Path, paths):
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            print(file, flush=True)
            target.run(file.read_bytes())


def fuzz(name, folder, options):
    import atheris

    with atheris.instrument_imports(include=["seqcore"]):
        target = importlib.import_module(f"hardening.fuzz.{name}")
    write_seeds(target, Path(folder))

    def run(data):
        try:
            target.run(data)
        except BaseException:
            # libFuzzer keeps it too, unless the threads of a library stand in the way of an orderly end.
            Path(f"{folder}-fault").write_bytes(data)
            raise

    atheris.Setup([sys.argv[0], folder, *options], run)
    atheris.Fuzz()


def main(name, action, *arguments):
    if name not in TARGETS:
        sys.exit(f"{name} is none of the targets: {', '.join(TARGETS)}")
    if action == "replay":
        replay(importlib.import_module(f"hardening.fuzz.{name}"), arguments)
    elif action == "fuzz":
        fuzz(name, arguments[0], arguments[1:])
    else:
        sys.exit("what to do is `fuzz FOLDER [OPTION …]` or `replay PATH …`")


main(*sys.argv[1:])
