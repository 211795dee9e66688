"""The command line: `python -m seqcore.onnx lower IN -o OUT` and `python -m seqcore.onnx explain MODEL`."""

import argparse
import os
import shutil
import sys
import tempfile

import onnx
from onnx import TensorProto

from seqcore.onnx._engines.engines import explain
from seqcore.onnx._model.tensors import one_line
from seqcore.onnx._model.weights import Weights
from seqcore.onnx.lowering import lower_with_report

# Protobuf's limit for a message, with some room for what is around the tensors.
_MOST_NBYTES = (1 << 31) - (1 << 20)


def main(arguments=None):
    """Run a command, and return the exit code: 1 where it failed. Wrong arguments exit with 2.

    Parameters
    ----------
    arguments : list of str, optional
        Those of the process by default.

    Examples
    --------
    >>> main(["explain", "no/such.onnx"])
    1
    """
    parser = argparse.ArgumentParser(
        prog="python -m seqcore.onnx", description="Tools for ONNX models with sequences."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("lower", help="compile the sequences of a model away, where they can be")
    command.add_argument("model", metavar="IN", help="the model file")
    command.add_argument("-o", "--output", metavar="OUT", required=True, help="where the result goes")
    command.add_argument(
        "--ragged-io",
        action="store_true",
        help="let sequences that the model takes and gives go in and out as tensors: parts as parts_values "
        "and parts_lengths, or as parts_values, flat, and parts_extents where more than axis 0 may differ",
    )
    command.set_defaults(run=_lower)
    command = commands.add_parser(
        "explain", help="tell what becomes of each sequence of a model, and what of it runs where"
    )
    command.add_argument("model", metavar="MODEL", help="the model file")
    command.set_defaults(run=_explain)
    given = parser.parse_args(arguments)
    try:
        given.run(given)
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        print(f"seqcore.onnx: {one_line(error)}", file=sys.stderr)
        return 1
    return 0


def _lower(given):
    _check_is_file(given.model)
    lowered, notes = lower_with_report(given.model, ragged_io=given.ragged_io)
    _write(lowered, given.output, os.path.dirname(os.path.abspath(given.model)))
    gone = sum(note.is_lowered for note in notes)
    stay = len(notes) - gone
    print(f"{given.output}: {_count(gone)} lowered, {stay or 'none'} left")
    for note in notes:
        if not note.is_lowered:
            print(f"  {note}")


def _explain(given):
    _check_is_file(given.model)
    for line in explain(given.model):
        print(line)


def _count(n):
    return "1 sequence" if n == 1 else f"{n} sequences"


def _check_is_file(path):
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder, not a model")
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path}")


def _write(model, path, source):
    """Write a model, and its weights beside it if they were in files or it would be too large.

    In the folder that it came from (`source`), they stay in the files where they are.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {folder}")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder")
    moves = _has_data_outside(model) and not os.path.samefile(folder, source)
    if moves:
        weights = Weights(source)
        weights.stubs = {one.name: one for one in model.graph.initializer if one.external_data}
        weights.check()
        weights.filled_model(model)
    # First elsewhere: what is at the path may be the model that was read, and should outlive a full disk.
    with tempfile.TemporaryDirectory(prefix=".lower-", dir=folder) as scratch:
        name = os.path.basename(path)
        if moves or _nbytes(model) > _MOST_NBYTES:
            data = f"{name}.data"
            onnx.save(model, os.path.join(scratch, name), save_as_external_data=True, location=data)
            # Small tensors stay inside: there may be no data at all.
            if os.path.exists(os.path.join(scratch, data)):
                shutil.move(os.path.join(scratch, data), os.path.join(folder, data))
        else:
            with open(os.path.join(scratch, name), "wb") as file:
                file.write(model.SerializeToString())
        os.replace(os.path.join(scratch, name), os.path.join(folder, name))


def _has_data_outside(model):
    return any(tensor.data_location == TensorProto.EXTERNAL for tensor in model.graph.initializer)


def _nbytes(model):
    """Return about how many bytes a model takes: protobuf itself doesn't count as far."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


if __name__ == "__main__":
    sys.exit(main())
