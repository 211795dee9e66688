"""The command line: `python -m seqcore.onnx lower IN -o OUT` and `python -m seqcore.onnx explain MODEL`."""

import argparse
import os
import shlex
import shutil
import stat
import sys
import tempfile

import onnx
from onnx import TensorProto

from seqcore._files.targets import naming, put_in_place, target_of
from seqcore.onnx._lowering.refusals import refusals_of
from seqcore.onnx._model.load import all_tensors, parse
from seqcore.onnx._model.prepare import message_has_lists
from seqcore.onnx._model.tensors import one_line
from seqcore.onnx._model.weights import Weights, location_of
from seqcore.onnx.explaining import explain
from seqcore.onnx.lowering import TARGETS, lower_for_triton, lower_with_report


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
    command.add_argument(
        "--target",
        choices=TARGETS,
        help="openvino: work around its differences; portable: for runtimes with few operators, without "
        "checks at run time",
    )
    _add_shapes(command)
    command.set_defaults(run=_lower)
    command = commands.add_parser(
        "explain", help="show how each sequence is compiled, and which engine runs which node"
    )
    command.add_argument("model", metavar="MODEL", help="the model file, or - for standard input")
    command.add_argument("--ragged-io", action="store_true", help="show what lower --ragged-io makes of it")
    _add_shapes(command)
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


def _add_shapes(command):
    command.add_argument(
        "--shape",
        metavar="NAME=N,N",
        action="append",
        default=[],
        help="the shape of an input, as x=16,4, or n= for a scalar; once for each",
    )
    command.add_argument(
        "--unroll",
        metavar="N",
        type=int,
        default=0,
        help="write out loops of up to N iterations whose number is known",
    )


def _shapes_of(given):
    """The shapes in the arguments, by the names of inputs."""
    shapes = {}
    for text in given.shape:
        name, is_told, lengths = text.rpartition("=")
        try:
            shapes[name] = tuple(map(int, lengths.split(","))) if lengths else ()
        except ValueError:
            is_told = ""
        if not (name and is_told):
            raise ValueError(f"--shape takes NAME=N,N, such as x=16,4, got {text!r}")
    return shapes


def _fail(message):
    print(f"seqcore.onnx: {message}", file=sys.stderr)
    return 1


def _lower(given):
    shapes = _shapes_of(given)
    if given.triton and (not given.ragged_io or given.output == STANDARD):
        raise ValueError("--triton needs --ragged-io, and a file as OUT")
    if given.triton and (given.target or shapes or given.unroll):
        raise ValueError("--triton takes no --target, --shape or --unroll: its batches have any shape")
    model = read_model(given.model)
    message = parse(model)
    check_output(given.output, given.model, message, given.replace_input)
    config = ""
    if given.triton:
        lowered, config, notes = lower_for_triton(model)
    else:
        how = {"target": given.target, "shapes": shapes, "unroll": given.unroll}
        lowered, notes = lower_with_report(model, ragged_io=given.ragged_io, **how)
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
        lines += _after_lower(message, "it" if given.output == STANDARD else name, stay, given)
        lines += refusals_of(lowered, given.target)
    print("\n".join(lines), file=sys.stderr if given.output == STANDARD else sys.stdout)


def _after_lower(message, name, stay, given):
    """Return lines on what to do next with a lowered model."""
    if not message_has_lists(message):
        return ["the model has no sequences: any runtime can run it unchanged"]
    if not stay:
        if given.target == "openvino":
            return [f"next: load {name} in OpenVINO; it has no sequences left"]
        if given.target:
            return [f"next: load {name} in your runtime; it has no sequences left"]
        other = "For OpenVINO pass --target openvino, for others --target portable"
        return [f"next: load {name} in onnxruntime; it has no sequences left. {other}"]
    lines = [
        f"next: load {name} in onnxruntime, or in seqcore.onnx.InferenceSession, where the remaining "
        "sequences take linear time, not quadratic"
    ]
    if _has_lists_outside(message) and not given.ragged_io:
        lines.append("      or pass --ragged-io, which turns the model's inputs and outputs into tensors too")
    return lines


def _explain(given):
    model = read_model(given.model)
    message = parse(model)
    for line in explain(model, given.ragged_io, _shapes_of(given), given.unroll):
        print(line)
    if message_has_lists(message):
        print("how to run it")
        print("    seqcore.onnx.InferenceSession takes this model as it is, as shown above")
        option = " --ragged-io" if given.ragged_io or _has_lists_outside(message) else ""
        name = shlex.quote(given.model) if os.path.isfile(given.model) else "MODEL"
        print(f"    for other runtimes: python -m seqcore.onnx lower {name} -o OUT{option}")


def _has_lists_outside(message):
    return any(one.type.HasField("sequence_type") for one in (*message.graph.input, *message.graph.output))


def _count(n):
    return "1 sequence" if n == 1 else f"{n} sequences"


# Files of models: reading and writing them, and standard input and output.

STANDARD = "-"

_SCRATCH = ".seqcore-lower-"

# Protobuf's limit for a message, minus room for everything except tensors.
_MOST_NBYTES = (1 << 31) - (1 << 20)


def read_model(name):
    """A model for `lower` and `explain`: the path of a file, which is read in parts; else a message."""
    if name == STANDARD:
        return parse(sys.stdin.buffer.read(), "what came on standard input")
    if os.path.isdir(name):
        raise IsADirectoryError(f"{name} is a folder, expected a model file")
    if not os.path.exists(name):
        raise FileNotFoundError(f"there is no file {name}")
    if stat.S_ISREG(os.stat(name).st_mode):
        return name
    with open(name, "rb") as pipe:
        return parse(pipe.read(), name)


def check_output(name, given, message, replaces_input):
    """Refuse an OUT that can't be written to, or that the model is read from, before anything is done.

    Parameters
    ----------
    name, given : str
        OUT and IN.
    message : ModelProto
        The model.
    replaces_input : bool
        Whether OUT may be IN.
    """
    if name == STANDARD:
        if sys.stdout.isatty():
            raise OSError(
                "a model can't be printed to a terminal: redirect standard output to a file or a program"
            )
        return
    target = target_of(name, "a model")
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {folder}")
    if _is_input(target, given) and not replaces_input:
        raise ValueError(f"{name} is the input model: pass --replace-input to overwrite it")
    _check_data(target, _data_of(message, given), name)


def _is_input(target, given):
    if not os.path.exists(target):
        return False
    if given != STANDARD:
        return os.path.samefile(target, given)
    try:
        return os.path.samestat(os.stat(target), os.fstat(sys.stdin.fileno()))
    except OSError:  # standard input without a file descriptor
        return False


def _data_of(message, given):
    """The files that a model's weights are in."""
    folder = os.path.dirname(place_of_input(given))
    places = {location_of(one) for one in all_tensors(message) if _is_outside(one)}
    return [os.path.join(folder, place) for place in places]


def _check_data(target, files, name):
    for file in files:
        if os.path.exists(target) and os.path.exists(file) and os.path.samefile(target, file):
            raise ValueError(
                f"{name} would overwrite {file}, which has weights of the input model: choose another file"
            )


def place_of_input(given):
    """The path to whose folder data in files are relative; standard input counts as in the current one."""
    return os.path.abspath(given)


def write_model(model, name, given):
    """Write a model, and its weights beside it if they were in files elsewhere or it would be too large.

    All goes into a folder beside the place first, and takes it when it is whole: what is at the path may be
    the model that was read, and outlives a full disk.
    """
    source = place_of_input(given)
    if name == STANDARD:
        _write_standard(model, source)
        return
    target = target_of(name, "a model")
    folder, own = os.path.split(target)
    stays = os.path.samefile(folder, os.path.dirname(source))
    moves = not stays and any(map(_is_outside, all_tensors(model)))
    with (
        naming(name, lambda path: _SCRATCH in path),
        tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch,
    ):
        written = os.path.join(scratch, own)
        if moves or _nbytes(model) > _MOST_NBYTES:
            files = _data_of(model, given)
            if moves:
                Weights(source).fill(model)
            data = f"{own}.data"
            _check_data(os.path.join(folder, data), files, f"{name}.data")
            onnx.save(model, written, save_as_external_data=True, location=data)
            _put_both(scratch, folder, data, own)
        else:
            with open(written, "wb") as file:
                file.write(model.SerializeToString())
                file.flush()
                os.fsync(file.fileno())
            put_in_place(written, target)


def write_config(text, name):
    """Write a model's `config.pbtxt` as Triton finds it, and return its path."""
    is_version = os.path.basename(os.path.dirname(os.path.abspath(name))).isdecimal()
    path = os.path.normpath(os.path.join(os.path.dirname(name), ".." if is_version else "", "config.pbtxt"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _put_both(scratch, folder, data, own):
    """Put a model and its data in place. Where the model can't be, the data are taken back, at Ctrl-C too."""
    place, before = os.path.join(folder, data), os.path.join(scratch, "before")
    written, model = os.path.join(scratch, data), os.path.join(scratch, own)
    has_data = os.path.exists(written)  # small tensors stay inside: there may be none
    if has_data:
        target_of(place, "the data of a model")
    try:
        if has_data and os.path.lexists(place):
            if os.path.exists(place):
                shutil.copymode(place, written)
            os.replace(place, before)
        if has_data:
            put_in_place(written, place)
        put_in_place(model, os.path.join(folder, own))
    except BaseException:
        if os.path.exists(model):  # else it is in place, and the data are its own
            if os.path.lexists(before):
                os.replace(before, place)
            elif has_data and not os.path.exists(written):
                os.remove(place)
        raise


def _write_standard(model, source):
    if any(map(_is_outside, all_tensors(model))):
        Weights(source).fill(model)
    if _nbytes(model) > _MOST_NBYTES:
        raise ValueError("a model of 2 GB or more needs a second file for its weights: pass a file as OUT")
    sys.stdout.buffer.write(model.SerializeToString())
    sys.stdout.buffer.flush()


def _is_outside(tensor):
    return tensor.data_location == TensorProto.EXTERNAL


def _nbytes(model):
    """Return about how many bytes a model takes: protobuf itself doesn't count as far."""
    return sum(len(tensor.raw_data) for tensor in all_tensors(model))


if __name__ == "__main__":
    sys.exit(main())
