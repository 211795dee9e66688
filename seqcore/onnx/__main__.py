"""The command line: `python -m seqcore.onnx lower IN -o OUT` and `python -m seqcore.onnx explain MODEL`."""

import argparse
import os
import sys

import onnx

from seqcore.onnx._engines.engines import explain
from seqcore.onnx._files import STANDARD, check_output, read_model, write_config, write_model
from seqcore.onnx._model.load import parse
from seqcore.onnx._model.prepare import message_has_lists
from seqcore.onnx._model.tensors import one_line
from seqcore.onnx.lowering import lower_for_triton, lower_with_report


def main(arguments=None):
    """Run a command and return the exit code: 0, or 1 if it failed. Invalid arguments exit with 2.

    Parameters
    ----------
    arguments : list of str, optional
        The arguments. The default is those of the process.

    Examples
    --------
    >>> main(["explain", "no/such.onnx"])
    1
    """
    parser = argparse.ArgumentParser(
        prog="python -m seqcore.onnx", description="Compile and inspect ONNX models with sequences."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("lower", help="replace sequence operators with tensor operators")
    command.add_argument("model", metavar="IN", help="the model file, or - for standard input")
    command.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="the file to write the lowered model to, or - for standard output",
    )
    command.add_argument("--replace-input", action="store_true", help="allow OUT to overwrite IN")
    command.add_argument(
        "--ragged-io",
        action="store_true",
        help="also replace sequences among the model's inputs and outputs with tensors: parts with "
        "parts_values and parts_lengths, or with flat parts_values and parts_extents if elements differ in "
        "other axes too",
    )
    command.add_argument(
        "--triton",
        action="store_true",
        help="with --ragged-io: also write a config.pbtxt for Triton Inference Server, with ragged batching, "
        "beside OUT, or into the folder above if OUT is in a version folder such as 1/",
    )
    command.set_defaults(run=_lower)
    command = commands.add_parser(
        "explain", help="show how each sequence is compiled, and which engine runs which node"
    )
    command.add_argument("model", metavar="MODEL", help="the model file, or - for standard input")
    command.set_defaults(run=_explain)
    given = parser.parse_args(arguments)
    try:
        given.run(given)
    except OSError as error:
        # Without the system's number, and with the name in front.
        named = error.strerror and error.filename is not None
        return _fail(f"{error.filename}: {error.strerror}" if named else one_line(error))
    except (ValueError, onnx.checker.ValidationError) as error:
        return _fail(one_line(error))
    return 0


def _fail(message):
    print(f"seqcore.onnx: {message}", file=sys.stderr)
    return 1


def _lower(given):
    if given.triton and (not given.ragged_io or given.output == STANDARD):
        raise ValueError("--triton needs --ragged-io, and a file as OUT")
    model = read_model(given.model)
    message = parse(model)
    check_output(given.output, given.model, message, given.replace_input)
    config = ""
    if given.triton:
        lowered, config, notes = lower_for_triton(model)
    else:
        lowered, notes = lower_with_report(model, ragged_io=given.ragged_io)
    write_model(lowered, given.output, given.model)
    if given.triton:
        config = write_config(config, given.output)
    gone = sum(note.is_lowered for note in notes)
    stay = len(notes) - gone
    name = "standard output" if given.output == STANDARD else given.output
    lines = [f"{name}: {_count(gone)} lowered, {stay or 'none'} left"]
    lines += [f"  {note}" for note in notes if not note.is_lowered]
    if given.triton:
        lines.append(f"{config}: a request has one element of each sequence, and gets a row of each output")
    else:
        lines += _after_lower(message, "it" if given.output == STANDARD else name, stay, given.ragged_io)
    print("\n".join(lines), file=sys.stderr if given.output == STANDARD else sys.stdout)


def _after_lower(message, name, stay, ragged_io):
    """Return lines on what to do next with a lowered model."""
    if not message_has_lists(message):
        return ["the model has no sequences: any runtime can run it unchanged"]
    if not stay:
        return [f"next: load {name} in onnxruntime, OpenVINO or any other runtime; it has no sequences left"]
    lines = [
        f"next: load {name} in onnxruntime, or in seqcore.onnx.InferenceSession, where the remaining "
        "sequences take linear time, not quadratic"
    ]
    if _has_lists_outside(message) and not ragged_io:
        lines.append("      or pass --ragged-io, which turns the model's inputs and outputs into tensors too")
    return lines


def _explain(given):
    model = read_model(given.model)
    message = parse(model)
    for line in explain(model):
        print(line)
    if message_has_lists(message):
        print("how to run it")
        print("    seqcore.onnx.InferenceSession takes this model as it is, as shown above")
        option = " --ragged-io" if _has_lists_outside(message) else ""
        name = given.model if os.path.isfile(given.model) else "MODEL"
        print(f"    for other runtimes: python -m seqcore.onnx lower {name} -o OUT{option}")


def _has_lists_outside(message):
    return any(one.type.HasField("sequence_type") for one in (*message.graph.input, *message.graph.output))


def _count(n):
    return "1 sequence" if n == 1 else f"{n} sequences"


if __name__ == "__main__":
    sys.exit(main())
