"""What commands can't read; what `lower` writes over: files, whole or not at all, its input never unasked."""

import io
import os
import stat
import subprocess
import sys

import numpy as np
import onnx
import pytest
from support.models.lowering import left_in, parse, rows

import seqcore.onnx.__main__ as files
from seqcore.onnx import lower
from seqcore.onnx.__main__ import main

posix = pytest.mark.skipif(os.name != "posix", reason="devices, pipes and links are POSIX's")

MODEL = """g (float[N, 100] x, int64 i) => (float[100] y) {
    s = SplitToSequence<keepdims = 0>(x)
    e = SequenceAt(s, i)
    y = Neg(e)
}"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(parse(MODEL), path)
    return path


@pytest.fixture
def weighty(tmp_path):
    """A model whose weights are in a file beside it, which are too large to stay inside."""
    ones = ", ".join("1" for _ in range(100 * 100))
    text = MODEL.replace("{", f"<float[100, 100] w = {{{ones}}}> {{", 1)
    model = parse(text.replace("y = Neg(e)", "y = MatMul(e, w)"))
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(rows(100, 100), "w"))
    onnx.save(model, tmp_path / "in.onnx", save_as_external_data=True, location="in.bin")
    return tmp_path / "in.onnx"


def failure(capfd, *arguments):
    """What a command that fails says."""
    assert main([str(argument) for argument in arguments]) == 1
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("seqcore.onnx: ")
    assert printed.err.count("\n") == 1
    assert ".seqcore-lower" not in printed.err
    return printed.err


def on_standard_input(monkeypatch, data):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def what_is_in(folder):
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


# -- what can't be read ------------------------------------------------------------------------------------


def test_mistakes(path, capfd):
    out = path.with_name("out.onnx")
    assert "there is no file" in failure(capfd, "lower", path.with_name("no.onnx"), "-o", out)
    assert "is a folder" in failure(capfd, "explain", path.parent)
    model = parse(MODEL)
    model.graph.node[0].op_type = "NoSuch"
    onnx.save(model, path)
    assert "the model is not valid: " in failure(capfd, "explain", path)
    path.write_text("hello")
    assert "can't be read as an ONNX model" in failure(capfd, "explain", path)
    assert not out.exists()


def test_missing_data(path, capfd):
    model = parse(
        "g (float[N, 100] x) => (seq(float[N, 100]) s) <float[1] w = {0}> "
        "{ y = Add(x, w) s = SequenceConstruct(y) }"
    )
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(rows(1, 100)[0], "w"))
    onnx.save(model, path, save_as_external_data=True, location="in.bin", size_threshold=0)
    path.with_name("in.bin").unlink()
    assert "in.bin" in failure(capfd, "explain", path)


# -- what is not replaced --------------------------------------------------------------------------------


@posix
def test_devices_and_pipes_stay_what_they_are(path, capfd):
    os.mkfifo(path.with_name("pipe"))
    for out in ("/dev/null", "/dev/stdout", path.with_name("pipe")):
        kind = stat.S_IFMT(os.stat(out).st_mode)
        if stat.S_ISREG(kind):
            continue  # standard output that goes to a file
        assert f"{out}: a model must be written to a file" in failure(capfd, "lower", path, "-o", out)
        assert stat.S_IFMT(os.stat(out).st_mode) == kind


def test_read_only_files_stay_as_they_are(path, capfd):
    out = path.with_name("out.onnx")
    out.write_bytes(b"before")
    out.chmod(0o444)
    assert f"{out}: the existing file is read-only" in failure(capfd, "lower", path, "-o", out)
    assert out.read_bytes() == b"before"
    out.chmod(0o644)


def test_folders_are_named(path, capfd):
    message = failure(capfd, "lower", path, "-o", path.parent)
    assert f"{path.parent}: a model must be written to a file, but this is a folder" in message
    lost = path.parent / "no" / "out.onnx"
    assert f"there is no folder {lost.parent}" in failure(capfd, "lower", path, "-o", lost)


def test_the_input_is_replaced_only_if_asked(path, capfd):
    before = path.read_bytes()
    names = [path, path.parent / "." / path.name, path.with_name("hard"), path.with_name("soft")]
    os.link(path, names[2])
    os.symlink(path, names[3])
    for out in names:
        message = failure(capfd, "lower", path, "-o", out)
        assert f"{out} is the input model: pass --replace-input to overwrite it" in message
    assert path.read_bytes() == before
    assert main(["lower", str(path), "--output", str(names[3]), "--replace-input"]) == 0
    assert names[3].is_symlink()
    assert left_in(onnx.load(path)) == []
    assert names[2].read_bytes() == before  # the other name of what was there


def test_the_input_may_come_by_standard_input(path, capfd, monkeypatch):
    before = path.read_bytes()
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert "is the input model" in failure(capfd, "lower", "-", "-o", path)
    assert path.read_bytes() == before


def test_weights_of_the_input_are_never_replaced(weighty, capfd):
    before = what_is_in(weighty.parent)
    data = weighty.with_name("in.bin")
    message = failure(capfd, "lower", weighty, "-o", data, "--replace-input")
    assert f"{data} would overwrite {data}, which has weights" in message
    other = weighty.parent / "other"
    other.mkdir()
    os.link(data, other / "out.onnx.data")
    assert "which has weights" in failure(capfd, "lower", weighty, "-o", other / "out.onnx")
    assert what_is_in(weighty.parent) == before
    assert sorted(one.name for one in other.iterdir()) == ["out.onnx.data"]


# -- what is -----------------------------------------------------------------------------------------------


@posix
def test_links_are_followed(path):
    (path.parent / "far").mkdir()
    target, link = path.parent / "far" / "real.onnx", path.with_name("link.onnx")
    link.symlink_to(target)
    for _ in range(2):  # a new file, and one that is there
        assert main(["lower", str(path), "-o", str(link)]) == 0
        assert link.is_symlink()
        assert not target.is_symlink()
        assert onnx.load(target) == lower(parse(MODEL))
        assert [one.name for one in target.parent.iterdir()] == ["real.onnx"]


@pytest.mark.parametrize("name", ["in.onnx", "out.onnx"])
def test_weights_stay_where_they_are(weighty, name):
    for _ in range(2):
        assert main(["lower", str(weighty), "-o", str(weighty.with_name(name)), "--replace-input"]) == 0
        assert {one.name for one in weighty.parent.iterdir()} == {"in.onnx", "in.bin", name}
        assert weighty.with_name(name).stat().st_size < 5000
        result = onnx.load(weighty.with_name(name))
        assert np.array_equal(onnx.numpy_helper.to_array(result.graph.initializer[0]), rows(100, 100))
        assert left_in(result) == []


def test_weights_come_along_to_another_folder(weighty):
    out = weighty.parent / "to" / "out.onnx"
    out.parent.mkdir()
    for _ in range(2):
        assert main(["lower", str(weighty), "-o", str(out)]) == 0
        assert {one.name for one in out.parent.iterdir()} == {"out.onnx", "out.onnx.data"}
        (weights,) = onnx.load(out).graph.initializer
        assert np.array_equal(onnx.numpy_helper.to_array(weights), rows(100, 100))


# -- halfway -------------------------------------------------------------------------------------------------


@pytest.mark.thread_unsafe
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends writes beyond a bound with an error")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["model", "model and data"])
def test_a_full_disk_leaves_what_was_there(weighty, elsewhere, capfd):
    import resource

    folder = weighty.parent / "to"
    folder.mkdir()
    out = folder / "out.onnx"
    if elsewhere:
        assert main(["lower", str(weighty), "-o", str(out)]) == 0
    else:
        onnx.save(onnx.load(weighty), weighty)  # all in one file
        out.write_bytes(b"before")
    before = what_is_in(folder)
    capfd.readouterr()
    bounds = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, bounds[1]))
    try:
        message = failure(capfd, "lower", weighty, "-o", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, bounds)
    assert message == f"seqcore.onnx: {out}: File too large\n"
    assert what_is_in(folder) == before
    assert len(list(folder.iterdir())) == len(before)


def test_data_go_back_where_the_model_cannot_follow(weighty, capfd, monkeypatch):
    folder = weighty.parent / "to"
    folder.mkdir()
    out = folder / "out.onnx"
    assert main(["lower", str(weighty), "-o", str(out)]) == 0
    before = what_is_in(folder)
    model = onnx.load(weighty)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(-rows(100, 100), "w"))
    weighty.with_name("in.bin").unlink()
    onnx.save(model, weighty, save_as_external_data=True, location="in.bin")
    capfd.readouterr()
    put_in_place = files.put_in_place

    def refuse(temporary, target):
        if target == str(out):
            raise OSError(28, "No space left on device", temporary)
        put_in_place(temporary, target)

    monkeypatch.setattr(files, "put_in_place", refuse)
    assert failure(capfd, "lower", weighty, "-o", out) == f"seqcore.onnx: {out}: No space left on device\n"
    assert what_is_in(folder) == before
    monkeypatch.undo()
    assert main(["lower", str(weighty), "-o", str(out)]) == 0
    assert what_is_in(folder)["out.onnx.data"] != before["out.onnx.data"]
    (weights,) = onnx.load(out).graph.initializer
    assert np.array_equal(onnx.numpy_helper.to_array(weights), -rows(100, 100))


def stopped_at(monkeypatch, number, late):
    """The moves of files up to one, from 0 on, at which Ctrl-C comes, before it is made or right after it."""
    moved, replace = [], os.replace

    def stop(source, target):
        moved.append(source)
        if len(moved) == number + 1:
            if late:
                replace(source, target)
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stop)


@pytest.mark.thread_unsafe
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("again", [False, True])
def test_ctrl_c_while_model_and_data_are_put_in_place(weighty, monkeypatch, again, number, late):
    """The two fit together: those of before, or the new ones."""
    folder = weighty.parent / "to"
    folder.mkdir()
    out = folder / "out.onnx"
    if again:
        files.write_model(onnx.load(weighty, load_external_data=False), str(out), str(weighty))
    before = what_is_in(folder)
    model = onnx.load(weighty)
    model.doc_string = "another"
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(-rows(100, 100), "w"))
    weighty.with_name("in.bin").unlink()
    onnx.save(model, weighty, save_as_external_data=True, location="in.bin")
    moves = 3 if again else 2  # what was there, the data, the model
    with monkeypatch.context() as patch:
        stopped_at(patch, number, late)
        try:
            files.write_model(onnx.load(weighty, load_external_data=False), str(out), str(weighty))
        except KeyboardInterrupt:
            assert number < moves
        else:
            assert number >= moves
    if number < moves - 1 or (number == moves - 1 and not late):
        assert what_is_in(folder) == before
    else:
        assert onnx.load(out, load_external_data=False).doc_string == "another"
        (weights,) = onnx.load(out).graph.initializer
        assert np.array_equal(onnx.numpy_helper.to_array(weights), -rows(100, 100))
    assert sorted(one.name for one in folder.iterdir()) in ([], ["out.onnx", "out.onnx.data"])


@posix
def test_permissions_stay(weighty):
    """Those of the model, and of its data."""
    folder = weighty.parent / "to"
    folder.mkdir()
    out = folder / "out.onnx"
    assert main(["lower", str(weighty), "-o", str(out)]) == 0
    for one in folder.iterdir():
        one.chmod(0o640)
    assert main(["lower", str(weighty), "-o", str(out)]) == 0
    assert {stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()} == {0o640}


# -- standard input and output ---------------------------------------------------------------------------


@pytest.mark.slow
def test_from_standard_input_to_standard_output(path):
    command = [sys.executable, "-m", "seqcore.onnx", "lower", "-", "-o", "-"]
    ended = subprocess.run(command, input=path.read_bytes(), capture_output=True, timeout=300)
    assert ended.returncode == 0
    assert onnx.load_model_from_string(ended.stdout) == lower(parse(MODEL))
    assert b"standard output: 1 sequence lowered, none left" in ended.stderr


def test_weights_in_files_come_along_to_standard_output(weighty, capfdbinary):
    assert main(["lower", str(weighty), "-o", "-"]) == 0
    (weights,) = onnx.load_model_from_string(capfdbinary.readouterr().out).graph.initializer
    assert np.array_equal(onnx.numpy_helper.to_array(weights), rows(100, 100))


def test_what_is_no_model(capfd, monkeypatch):
    for data in (b"", b"hello", b"\x08\x08"):
        for command in (["explain", "-"], ["lower", "-", "-o", "-"]):
            on_standard_input(monkeypatch, data)
            message = failure(capfd, *command)
            assert "what came on standard input can't be read as an ONNX model" in message


@posix
def test_pipes_are_read_once(path, capfd, monkeypatch):
    """As of a shell's `<(…)`; and standard input."""
    on_standard_input(monkeypatch, path.read_bytes())
    assert main(["explain", "-"]) == 0
    assert capfd.readouterr().out.startswith("a session ")
    here, there = os.pipe()
    os.write(there, path.read_bytes())
    os.close(there)
    assert main(["explain", f"/dev/fd/{here}"]) == 0
    os.close(here)
    printed = capfd.readouterr().out
    assert printed.startswith("a session ")
    assert "lower MODEL -o OUT" in printed


@posix
def test_a_terminal_gets_no_model(path, capfd, monkeypatch):
    import pty

    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"this system has no terminal to give: {error}")
    with open(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", terminal)
        assert main(["lower", str(path), "-o", "-"]) == 1
    os.close(ours)
    assert "a model can't be printed to a terminal" in capfd.readouterr().err


# -- what to do next ---------------------------------------------------------------------------------------


def test_it_says_what_to_do_next(path, capfd):
    out = path.with_name("out.onnx")
    main(["lower", str(path), "-o", str(out)])
    assert capfd.readouterr().out.splitlines()[-1] == (
        f"next: load {out} in onnxruntime; it has no sequences left. For OpenVINO pass --target openvino, "
        "for others --target portable"
    )
    onnx.save(parse("g (float[N] x) => (float[N] y) { y = Neg(x) }"), path)
    main(["lower", str(path), "-o", str(out)])
    assert (
        capfd.readouterr().out.splitlines()[-1]
        == "the model has no sequences: any runtime can run it unchanged"
    )


@pytest.mark.parametrize("name", ["with space.onnx", "-.onnx", "ünï.onnx"])
def test_odd_names(path, name, monkeypatch):
    monkeypatch.chdir(path.parent)
    assert main(["lower", "in.onnx", f"-o./{name}"]) == 0
    assert onnx.load(path.with_name(name)) == lower(parse(MODEL))
