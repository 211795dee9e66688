"""Elements go to PyTorch, and its tensors into sequences."""

import gc
import warnings

import numpy as np
import pytest
from support.strategies import NUMBER_NAMES, NUMERIC_NAMES, assert_holds, filled, laid_out, same
from test_interop import refused

from seqcore import TensorSequence, concat_from_sequence, sequence_map, split_to_sequence

torch = pytest.importorskip("torch")

# PyTorch has no negative strides.
LAYOUTS = ["plain", "fortran", "transposed", "strided", "offset", "broadcast", "unaligned"]


def read_only_dlpack():
    try:
        torch.from_dlpack(TensorSequence([[1]])[0])
    except BufferError:
        return False
    return True


needs_read_only_dlpack = pytest.mark.skipif(
    not read_only_dlpack(), reason="NumPy doesn't export what is read-only by DLPack, or PyTorch doesn't ask"
)


def tensor_of(array):
    """A tensor of the same values, in memory of its own."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def arrays_of(tensor):
    """What a sequence of the tensor has to hold."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(filled("bfloat16", 0).dtype)
    return tensor.numpy()


def quietly(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is read-only, or new, or old
        return make()


# --- elements to PyTorch ---


@needs_read_only_dlpack
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NUMERIC_NAMES)
def test_from_dlpack_shares(name, layout):
    source = laid_out(filled(name, (2, 3)), layout)
    seq = TensorSequence([source])
    tensor = torch.from_dlpack(seq[0])
    assert tensor.data_ptr() == source.ctypes.data
    assert same(tensor.numpy(), source)
    seq.clear()
    before = source.copy()
    del source
    gc.collect()
    assert same(tensor.numpy(), before)


@needs_read_only_dlpack
@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_odd_shapes_go_out(shape):
    element = TensorSequence([filled("float32", shape)])[0]
    assert same(torch.from_dlpack(element).numpy(), element)
    assert same(torch.tensor(element).numpy(), element)


@needs_read_only_dlpack
def test_pytorch_writes_through_what_is_read_only():
    """It has no read-only tensors, and its documentation says so: here it is pinned, for ours to warn of."""
    source = filled("float32", 3)
    tensor = torch.from_dlpack(TensorSequence([source])[0])
    tensor[0] = 9
    assert source[0] == 9


@pytest.mark.parametrize("take", [torch.from_numpy, torch.as_tensor, torch.asarray])
def test_from_numpy_shares_and_warns(take):
    source = filled("float32", 3)
    torch.set_warn_always(True)  # else it warns once in a process
    try:
        with pytest.warns(UserWarning, match="not writable"):
            tensor = take(TensorSequence([source])[0])
    finally:
        torch.set_warn_always(False)
    assert tensor.data_ptr() == source.ctypes.data


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NUMERIC_NAMES)
def test_tensor_copies(name, layout):
    source = laid_out(filled(name, (2, 3)), layout)
    tensor = torch.tensor(TensorSequence([source])[0])
    assert same(tensor.numpy(), source)
    assert not np.shares_memory(tensor.numpy(), source)


@needs_read_only_dlpack
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bfloat16_goes_out_as_integers(layout):
    element = TensorSequence([laid_out(filled("bfloat16", (2, 3)), layout)])[0]
    tensor = torch.from_dlpack(element.view(np.int16)).view(torch.bfloat16)
    assert tensor.data_ptr() == element.__array_interface__["data"][0]
    assert same(arrays_of(tensor), element)


def test_negative_strides_go_out_as_a_copy():
    source = filled("int64", 4)[::-1]
    element = TensorSequence([source])[0]
    with pytest.raises(ValueError, match="negative"):
        quietly(lambda: torch.from_numpy(element))
    assert same(torch.tensor(element.copy()).numpy(), source)


@pytest.mark.parametrize("name", ["bfloat16", "string"])
def test_what_pytorch_takes_of_no_array_is_its_error(name):
    element = TensorSequence([filled(name, 3)])[0]
    with pytest.raises(TypeError, match=r"numpy\.object_|bfloat16"):
        torch.tensor(element)


# --- its tensors into sequences ---


@pytest.mark.parametrize("name", NUMBER_NAMES)
def test_tensors_are_taken_by_reference(name):
    tensor = tensor_of(filled(name, (2, 6)))
    for one in (tensor, tensor.T, tensor[:, 1::2], tensor[1, 1], tensor[:0], tensor[:1].expand(3, 6)):
        seq = TensorSequence([one])
        seq.append(one)
        seq.insert(0, one)
        seq[1:1] = [one]
        assert_holds(seq, [arrays_of(one)] * 4)
        assert arrays_of(one) in seq
        assert one in seq
        assert seq.count(one) == 4
        if one.numel():
            assert seq[0].__array_interface__["data"][0] == one.data_ptr()
    tensor.copy_(tensor.flip(0))
    assert_holds(TensorSequence([tensor]), [arrays_of(tensor)])


@pytest.mark.parametrize("name", NUMBER_NAMES)
def test_tensors_are_split(name):
    tensor = tensor_of(filled(name, (3, 4)))
    pieces = split_to_sequence(tensor, axis=1, keepdims=0)
    assert_holds(pieces, list(arrays_of(tensor).T))
    assert pieces[1].__array_interface__["data"][0] == tensor[:, 1].data_ptr()
    assert same(concat_from_sequence(pieces, 1, new_axis=1), arrays_of(tensor))


def test_integer_tensors_are_lengths():
    seq = split_to_sequence(np.arange(6), torch.tensor([1, 2, 3]))
    assert seq.shapes == [(1,), (2,), (3,)]
    assert seq == split_to_sequence(torch.arange(6), [1, 2, 3])
    with pytest.raises(TypeError, match="must be an integer"):
        split_to_sequence(np.arange(6), torch.tensor(2.0))


def test_copy_detaches():
    tensor = torch.zeros(2)
    seq = TensorSequence([tensor], copy=True)
    tensor += 1
    assert_holds(seq, [np.zeros(2, np.float32)])


def test_subclasses_and_views_of_tensors_go_in():
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    with torch.inference_mode():
        assert_holds(TensorSequence([parameter, torch.ones(2)]), [np.ones(2, np.float32)] * 2)
    trained = torch.nn.Parameter(torch.ones(2))
    assert TensorSequence([trained.detach()])[0].__array_interface__["data"][0] == trained.data_ptr()


def test_lists_of_tensors_go_in():
    assert_holds(TensorSequence([[torch.tensor(1), torch.tensor(2)]]), [np.array([1, 2])])
    assert_holds(TensorSequence(torch.ones(3).split(2)), [np.ones(2, np.float32), np.ones(1, np.float32)])


def test_a_body_may_return_tensors():
    seq = TensorSequence([[1.0, 2.0], [3.0]], dtype="float32")
    assert_holds(
        sequence_map(lambda x: torch.tensor(x) * 2, seq), [np.float32([2, 4]), np.array([6], np.float32)]
    )
    assert sequence_map(lambda x: torch.tensor(x).bfloat16(), seq, max_workers=2).dtype.name == "bfloat16"


def nested():
    return torch.nested.nested_tensor([torch.ones(2), torch.zeros(1)])


OTHERS = {
    "gradient": (lambda: torch.ones(2, requires_grad=True), "detach"),
    "parameter": (lambda: torch.nn.Parameter(torch.ones(2)), "detach"),
    "bfloat16-gradient": (lambda: torch.ones(2, dtype=torch.bfloat16, requires_grad=True), "detach"),
    "conjugate": (lambda: torch.ones(2, dtype=torch.complex64).conj(), "resolve_conj"),
    "negative": (lambda: torch.ones(2, dtype=torch.complex64).conj().imag, "resolve_neg"),
    "sparse": (lambda: torch.ones(2).to_sparse(), "to_dense"),
    "bfloat16-sparse": (lambda: torch.ones(2, dtype=torch.bfloat16).to_sparse(), "to_dense"),
    "csr": (lambda: torch.ones(2, 2).to_sparse_csr(), "to_dense"),
    "meta": (lambda: torch.ones(2, device="meta"), "meta"),
    "bfloat16-meta": (lambda: torch.ones(2, device="meta", dtype=torch.bfloat16), "meta"),
    "quantized": (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "QInt8"),
    "float8": (lambda: torch.ones(2).to(torch.float8_e4m3fn), "Float8"),
    "nested": (nested, r"it is nested, and tensor\.unbind\(\) has its elements"),
    "storage": (lambda: torch.ones(2).untyped_storage(), "expected an array"),
    "dtype": (lambda: torch.float32, "expected an array"),
    "device": (lambda: torch.device("cpu"), "expected an array"),
}


@pytest.mark.parametrize(("make", "match"), OTHERS.values(), ids=OTHERS)
def test_other_tensors_are_errors_that_name_the_remedy(make, match):
    refused(quietly(make), TypeError, match)


@pytest.mark.parametrize("kind", ["gradient", "parameter", "conjugate", "sparse", "meta"])
def test_what_cannot_be_read_is_looked_for_in_vain_with_the_error_of_append(kind):
    """Nobody can say whether it is there: `False` would be a guess."""
    tensor = quietly(OTHERS[kind][0])
    seq = TensorSequence([np.ones(2, np.float32)])
    for look in (seq.append, seq.__contains__, seq.index, seq.count, seq.remove):
        for given in (tensor, [tensor]):
            with pytest.raises(TypeError, match=r"NumPy can't read (the tensor|an item of the tensor), a "):
                look(given)
    assert_holds(seq, [np.ones(2, np.float32)])


def test_a_nested_tensor_is_a_sequence():
    assert_holds(TensorSequence(quietly(nested).unbind()), [np.ones(2, np.float32), np.zeros(1, np.float32)])


def test_a_bare_tensor_is_no_sequence():
    for make in (lambda: TensorSequence(torch.ones(2)), lambda: TensorSequence([[1]]).extend(torch.ones(2))):
        with pytest.raises(TypeError, match="split_to_sequence"):
            make()


def test_tensors_of_another_type_are_type_errors():
    seq = TensorSequence([np.zeros(2, np.float32)])
    for wrong in (torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.bfloat16)):
        with pytest.raises(TypeError, match="float32"):
            seq.append(wrong)
        assert wrong not in seq
    assert_holds(seq, [np.zeros(2, np.float32)])


# --- what becomes of their memory ---


@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor.set_(torch.zeros(5, dtype=tensor.dtype)),
        lambda tensor: setattr(tensor, "data", torch.zeros(5, dtype=tensor.dtype)),
        lambda tensor: tensor.resize_(1),
        lambda tensor: tensor.t_(),
        lambda tensor: tensor.unsqueeze_(0),
    ],
    ids=["set_", "data", "resize_", "t_", "unsqueeze_"],
)
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_tensors_that_move_on_leave_their_memory(name, change):
    tensor = tensor_of(filled(name, (50, 40)))
    seq = TensorSequence([tensor])
    change(tensor)
    del tensor
    gc.collect()
    _ = [torch.full((50, 40), 7.0) for _ in range(20)]
    assert_holds(seq, [filled(name, (50, 40))])


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_memory_that_a_sequence_has_is_not_resized(name):
    tensor = tensor_of(filled(name, 50))
    seq = TensorSequence([tensor])
    with pytest.raises(RuntimeError, match="resiz"):
        tensor.resize_(10_000)
    with pytest.raises(RuntimeError, match="resiz"):
        tensor.untyped_storage().resize_(0)
    assert_holds(seq, [filled(name, 50)])
