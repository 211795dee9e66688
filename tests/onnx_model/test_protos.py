"""to_proto and from_proto: every type, onnx's own helpers on the other side, and damaged messages."""

import io
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import SequenceProto, TensorProto, helper, numpy_helper
from support.strategies import NAMES, array_lists, assert_holds, dtype_of, filled

import seqcore as sq
from seqcore.onnx import from_proto, to_proto
from seqcore.onnx._model.tensors import tensor_type

pytestmark = pytest.mark.mostly_slow(3)

SHAPES = [(), (0,), (1,), (3,), (2, 0, 3), (2, 3), (1, 2, 3, 1)]


def plain(values=(1, 2, 3), name="float32", **fields):
    """A TensorProto with raw data, or what `fields` say."""
    array = np.array(values, dtype_of(name))
    proto = TensorProto(dims=array.shape, data_type=tensor_type(array.dtype), raw_data=array.tobytes())
    return changed(proto, **fields)


def changed(proto, **fields):
    for name, value in fields.items():
        proto.ClearField(name)
        if value is not None:
            proto.MergeFrom(type(proto)(**{name: value}))
    return proto


def sequence(*tensors, **fields):
    return changed(SequenceProto(elem_type=SequenceProto.TENSOR, tensor_values=tensors), **fields)


def read_or_refused(data, dtype=None):
    """The sequence in some bytes, or None where they are refused with an error of our own."""
    try:
        return from_proto(data, dtype)
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError):
            raise
        return None


def typed(array, field, values):
    number = tensor_type(array.dtype)
    return TensorProto(dims=array.shape, data_type=number, **{field: values})


class TestRoundTrips:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_type_and_shape(self, name):
        arrays = [filled(name, shape, start=i) for i, shape in enumerate(SHAPES)]
        seq = sq.TensorSequence(arrays)
        proto = to_proto(seq, name="given")
        assert (proto.name, proto.elem_type) == ("given", SequenceProto.TENSOR)
        for source in (proto, proto.SerializeToString(), bytearray(proto.SerializeToString())):
            assert_holds(from_proto(source), arrays)
            assert from_proto(source, dtype=name).dtype == seq.dtype

    @pytest.mark.parametrize("value", [np.nan, -0.0, np.inf, 1e-45])
    def test_odd_numbers_keep_their_bits(self, value):
        for dtype in (np.float32, np.float64, np.complex64, ml_dtypes.bfloat16):
            array = np.array([value, 1], dtype)
            assert from_proto(to_proto([array]))[0].tobytes() == array.tobytes()

    @pytest.mark.parametrize(
        "text", ["", "é", "日本", "\0", "a\0b", "😀", "\ufeff", "x" * 127, "x" * 128, "é" * 10_000]
    )
    def test_strings(self, text):
        arrays = [np.array(texts, object) for texts in ([text], text, ["a", text], [text, "a"], [[text]])]
        for some in (arrays, arrays * 20, arrays[:1] * 20, [arrays[2], arrays[0]] * 20):
            assert_holds(from_proto(to_proto(some)), some)


class TestEmpty:
    @pytest.mark.parametrize("name", NAMES)
    def test_the_type_is_given(self, name):
        proto = to_proto(sq.TensorSequence(dtype=name), name="none")
        assert (len(proto.tensor_values), proto.elem_type, proto.name) == (0, SequenceProto.TENSOR, "none")
        assert_holds(from_proto(proto, dtype=name), [])
        assert from_proto(proto, dtype=name).dtype == dtype_of(name)

    def test_without_it(self):
        with pytest.raises(ValueError, match=r"is empty and so has no dtype: pass one, .*dtype='float32'"):
            from_proto(to_proto([]))

    def test_no_type_at_all(self):
        with pytest.raises(TypeError, match="not an element type"):
            from_proto(to_proto([]), dtype="float8")


# Before its version 1.19, onnx took bfloat16 for float32.
NEW_ONNX = tuple(map(int, onnx.__version__.split(".")[:2])) >= (1, 19)
NAMES_IN_ONNX = [name for name in NAMES if name != "bfloat16" or NEW_ONNX]


class TestOnnxHelpers:
    """onnx.numpy_helper on the other side."""

    @given(array_lists(st.sampled_from(NAMES_IN_ONNX)))
    def test_onnx_reads_ours(self, arrays):
        found = numpy_helper.to_list(to_proto(arrays))
        assert len(found) == len(arrays)
        for one, array in zip(found, arrays, strict=True):
            assert one.tolist() == array.tolist()
            assert one.shape == array.shape
            assert one.dtype == array.dtype

    @given(array_lists(st.sampled_from(NAMES_IN_ONNX)))
    def test_we_read_onnx(self, arrays):
        assert_holds(from_proto(numpy_helper.from_list(arrays)), arrays)

    @given(array_lists(st.sampled_from(NAMES_IN_ONNX)), st.integers(1, 20))
    def test_the_bytes_are_the_same(self, arrays, times):
        arrays = arrays * times
        ours = to_proto(arrays, name="n").SerializeToString()
        theirs = numpy_helper.from_list(arrays, name="n").SerializeToString()
        # onnx writes the type of strings at another time, which the bytes don't show.
        assert ours == theirs

    @pytest.mark.parametrize("name", NAMES)
    def test_typed_fields(self, name):
        for shape in SHAPES:
            array = filled(name, shape, start=7)
            number = tensor_type(array.dtype)
            proto = helper.make_tensor("t", number, shape, array.reshape(-1).tolist())
            assert not proto.HasField("raw_data")
            assert_holds(from_proto(sequence(*[proto] * 20)), [array] * 20)

    @pytest.mark.parametrize(
        "name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    )
    def test_typed_fields_to_the_last_value(self, name):
        info = np.iinfo(name)
        array = np.array([info.min, info.max], name)
        assert_holds(
            from_proto(sequence(helper.make_tensor("t", tensor_type(array.dtype), [2], array))), [array]
        )

    @pytest.mark.parametrize("kind", ["float16", "bfloat16"])
    def test_typed_fields_of_sixteen_bits(self, kind):
        bits = np.array([0x3C00, 0x8000, 0xFFFF, 0], np.uint16)
        [found] = from_proto(sequence(typed(bits.view(dtype_of(kind)), "int32_data", bits.tolist())))
        assert found.dtype == dtype_of(kind)
        assert found.view(np.uint16).tolist() == bits.tolist()


class TestForms:
    def test_a_path(self, tmp_path):
        path = tmp_path / "input_0.pb"
        path.write_bytes(to_proto([[1, 2], [3]]).SerializeToString())
        for form in (path, str(path)):
            assert from_proto(form).shapes == [(2,), (1,)]

    def test_a_damaged_file_is_named(self, tmp_path):
        path = tmp_path / "input_0.pb"
        path.write_bytes(to_proto([[1, 2], [3]]).SerializeToString()[:-1])
        with pytest.raises(ValueError, match="truncated") as caught:
            from_proto(path)
        assert any("input_0.pb" in note for note in caught.value.__notes__)

    def test_no_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"nothing\.pb"):
            from_proto(tmp_path / "nothing.pb")

    @pytest.mark.parametrize(
        "given", [None, 3, [1.0], np.ones(3), io.BytesIO(), TensorProto(), onnx.ModelProto()]
    )
    def test_no_form_at_all(self, given):
        with pytest.raises(
            TypeError, match=f"SequenceProto, its bytes, or a path, got .*{type(given).__name__}"
        ):
            from_proto(given)

    @pytest.mark.parametrize("given", [None, 3, np.ones(3), "text", {1: 2}])
    def test_no_sequence(self, given):
        with pytest.raises(TypeError, match="expected a sequence"):
            to_proto(given)

    def test_names(self):
        assert not to_proto([[1]]).HasField("name")
        with pytest.raises(TypeError, match="name must be a str, got None of type NoneType"):
            to_proto([[1]], name=None)


# Their errors are ValueErrors, but for those of a type that sequences don't have.
DAMAGED = {
    "negative": (plain(dims=[-3]), "negative length"),
    "two negative": (plain(dims=[-3, -1]), "negative length"),
    "overflow": (plain(dims=[2**62, 2**62]), "too large"),
    "overflow to the right size": (plain(dims=[2**32, 2**32 + 1, 3]), "too large"),
    "overflow in an empty one": (plain(dims=[0, 2**62], raw_data=b""), "too large"),
    "huge": (plain(dims=[2**40]), "12 bytes of raw_data, but a float32 tensor of shape"),
    "huge typed": (plain(dims=[2**40], raw_data=None), "0 values in float_data"),
    "dims": (plain(dims=[1] * 65), "65 dimensions"),
    "too short": (plain(raw_data=b"12345678901"), "11 bytes of raw_data, but"),
    "too long": (plain(raw_data=b"1234567890123"), "13 bytes of raw_data, but"),
    "no data": (plain(raw_data=None), "0 values in float_data, but"),
    "too few": (plain(raw_data=None, float_data=[1, 2]), "2 values in float_data, but"),
    "odd complex": (plain(name="complex64", raw_data=None, float_data=[1] * 5), "5 values .* 6"),
    "wrong field": (plain(raw_data=None, int32_data=[1, 2, 3]), "in int32_data, but .* float_data"),
    "two fields": (plain(float_data=[1, 2, 3]), "several fields: float_data, raw_data"),
    "empty and full": (plain(raw_data=b"", float_data=[1, 2, 3]), "several fields"),
    "raw strings": (plain(name="uint8", data_type=8), "in raw_data, but that of string"),
    "undefined": (plain(data_type=0), "no data_type"),
    "unknown": (plain(data_type=999), "data_type 999 is none of ONNX's"),
    "negative type": (plain(data_type=-1), "data_type -1 is none of ONNX's"),
    "float8": (plain(data_type=TensorProto.FLOAT8E5M2), "float8e5m2, a type that sequences don't"),
    "int4": (plain(data_type=TensorProto.INT4), "int4, a type that sequences don't"),
    "elsewhere": (plain(data_location=TensorProto.EXTERNAL, raw_data=None), "in another file"),
    "path": (
        plain(external_data=[onnx.StringStringEntryProto(key="location", value="/etc/passwd")]),
        "in another file",
    ),
    "segment": (plain(segment=TensorProto.Segment(begin=0, end=1)), "segment"),
    "text": (TensorProto(dims=[2], data_type=8, string_data=[b"a", b"\xff"]), "string 1 is not UTF-8"),
    "surrogate": (TensorProto(data_type=8, string_data=[b"\xed\xa0\x80"]), "string 0 is not UTF-8"),
    "bool": (plain([0, 1, 1], "bool", raw_data=b"\0\1\2"), "bytes 0 and 1 only"),
    "typed bool": (plain([0], "bool", raw_data=None, int32_data=[2]), "value 0 in int32_data is 2"),
    "int8": (plain([0], "int8", raw_data=None, int32_data=[128]), "is 128: int8 tensors have -128 to"),
    "uint16": (plain([0], "uint16", raw_data=None, int32_data=[-1]), "uint16 tensors have 0 to 65535"),
    "float16": (plain([0], "float16", raw_data=None, int32_data=[65536]), "float16 tensors have 0 to"),
    "uint32": (plain([0], "uint32", raw_data=None, uint64_data=[2**32]), "uint32 tensors have 0 to"),
}


# The types of those that are not float32, for their neighbors.
GOOD = {
    TensorProto.BOOL: "bool",
    TensorProto.INT8: "int8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.FLOAT16: "float16",
    TensorProto.COMPLEX64: "complex64",
}


class TestDamagedTensors:
    @pytest.mark.parametrize("before", [0, 48], ids="{} before".format)
    @pytest.mark.parametrize("case", DAMAGED)
    def test_the_element_is_named(self, case, before):
        tensor, message = DAMAGED[case]
        error = TypeError if "a type that sequences don't" in message else ValueError
        good = numpy_helper.from_array(np.zeros(1, dtype_of(GOOD.get(tensor.data_type, "float32"))))
        if tensor.data_type == TensorProto.STRING:
            good = numpy_helper.from_array(np.array(["a"], object))
        proto = sequence(*[good] * before, tensor, good)
        for source in (proto, proto.SerializeToString()):
            with pytest.raises(error, match=f"element {before} of the SequenceProto: .*{message}"):
                from_proto(source)

    def test_another_type_than_asked_for(self):
        with pytest.raises(TypeError, match=r"element 0 .* tensor of float32, in a sequence of int64"):
            from_proto(sequence(plain()), dtype="int64")
        assert len(from_proto(sequence(plain()), dtype=">f4")) == 1

    @pytest.mark.slow
    def test_no_memory_for_what_is_not_there(self):
        code = (
            "import re, seqcore.onnx as sqo, onnx\n"
            # Not ru_maxrss, which begins with that of the process before.
            "def peak(): return int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
            "def proto(n): return onnx.SequenceProto(elem_type=1, tensor_values=[\n"
            "    onnx.TensorProto(dims=[n], data_type=1, raw_data=b'1234')])\n"
            "sqo.from_proto(proto(1))\n"
            "used = peak()\n"
            "try: sqo.from_proto(proto(2**31))\n"
            "except ValueError: print(peak() - used)\n"
        )
        if sys.platform != "linux":
            pytest.skip("only Linux tells the peak of a process")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert int(done.stdout) < 10_000


class TestDamagedSequences:
    @pytest.mark.parametrize("name", ["float32", "int64"])
    def test_other_messages(self, name):
        """A TensorProto of float32 reads as an empty sequence of tensors: field 2 says 1 in both.

        The bytes of an optional tensor are those of a sequence of one: nothing can tell them apart.
        """
        for message in (plain(name=name), helper.make_model(helper.make_graph([], "g", [], []))):
            data = message.SerializeToString()
            for source in (data, SequenceProto.FromString(data)):
                with pytest.raises((ValueError, TypeError)):
                    from_proto(source, dtype="float32")

    def test_nested_without_end(self):
        data = b""
        while len(data) < 100_000:
            length = len(data)
            head = bytearray([SequenceProto.SEQUENCE_VALUES_FIELD_NUMBER << 3 | 2])
            while length > 127:
                head.append(length & 127 | 128)
                length >>= 7
            data = bytes(head) + bytes([length]) + data
        with pytest.raises(ValueError, match="not a SequenceProto"):
            from_proto(data)

    @given(array_lists(), st.data())
    def test_any_damage(self, arrays, data):
        damaged = bytearray(to_proto(arrays * data.draw(st.sampled_from([1, 20]))).SerializeToString())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(damaged)))
            kind = data.draw(st.sampled_from(["flip", "cut", "insert", "drop"]))
            if kind == "flip" and at < len(damaged):
                damaged[at] ^= 1 << data.draw(st.integers(0, 7))
            elif kind == "cut":
                del damaged[at:]
            elif kind == "insert":
                damaged[at:at] = data.draw(st.binary(min_size=1, max_size=4))
            elif kind == "drop":
                del damaged[at : at + data.draw(st.integers(1, 4))]
        seq = read_or_refused(bytes(damaged))
        if seq is None:
            return
        seq._check()
        again = from_proto(to_proto(seq), dtype=seq.dtype)
        assert again.shapes == seq.shapes
        for one, other in zip(again, seq, strict=True):
            assert one.tolist() == other.tolist() if seq.dtype == object else one.tobytes() == other.tobytes()


class TestLimits:
    @pytest.mark.parametrize("shape", [(2**29,), (2**20, 2**9)])
    def test_too_large_to_write(self, shape):
        huge = np.broadcast_to(np.float32(0), shape)
        with pytest.raises(
            ValueError, match="too many for a SequenceProto: a message of protobuf has at most"
        ):
            to_proto([huge])

    def test_too_large_in_sum(self):
        with pytest.raises(ValueError, match="make several of shorter sequences"):
            to_proto(sq.TensorSequence([np.broadcast_to(np.int8(0), 2**20)] * 2**11))

    @pytest.mark.parametrize("text", ["", "a", "ä" * 20])
    def test_many_strings(self, text, monkeypatch):
        """Each has a head of up to six bytes, and a limit as large as the message holds."""
        seq = sq.TensorSequence([[text] * 10] * 100)
        size = len(to_proto(seq).SerializeToString())
        monkeypatch.setattr("seqcore.onnx.protos.LIMIT", size // 2)
        with pytest.raises(ValueError, match="make several of shorter sequences"):
            to_proto(seq)
        monkeypatch.setattr("seqcore.onnx.protos.LIMIT", 4 * size)
        assert len(to_proto(seq).SerializeToString()) == size

    def test_strings_without_utf8(self):
        with pytest.raises(ValueError, match="element 1 has a string without UTF-8"):
            to_proto([["a"], ["\ud800"]])

    def test_too_large_to_read(self, tmp_path):
        path = tmp_path / "huge.pb"
        with open(path, "wb") as file:
            file.truncate(2**31)  # a hole: it takes no room on the disk
        with pytest.raises(ValueError, match="2,147,483,648 bytes are too many"):
            from_proto(path)
