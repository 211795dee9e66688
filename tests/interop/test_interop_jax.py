"""Elements go to JAX, and its arrays into sequences."""

import gc
import pickle

import numpy as np
import pytest
from support.strategies import NUMBER_NAMES, NUMERIC_NAMES, assert_holds, filled, laid_out, same
from test_interop import refused

from seqcore import TensorSequence, concat_from_sequence, sequence_map, split_to_sequence

jax = pytest.importorskip("jax")
jnp = jax.numpy

LAYOUTS = ["plain", "transposed", "strided", "reversed", "broadcast", "unaligned"]


@pytest.fixture(autouse=True)
def all_types():
    """JAX makes 32 bits of 64 where it isn't told otherwise."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


# --- elements to JAX ---


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NUMBER_NAMES)
def test_asarray_copies(name, layout):
    source = laid_out(filled(name, (2, 3)), layout)
    made = jnp.asarray(TensorSequence([source])[0])
    assert same(np.asarray(made), source)
    if name in NUMERIC_NAMES and layout != "broadcast":
        before = source.copy()
        source[...] = source[::-1].copy()
        assert same(np.asarray(made), before)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_odd_shapes_go_out(shape):
    element = TensorSequence([filled("float32", shape)])[0]
    assert same(np.asarray(jnp.asarray(element)), element)


def test_without_64_bits_the_type_changes():
    jax.config.update("jax_enable_x64", False)
    assert jnp.asarray(TensorSequence([[1.5]])[0]).dtype == np.float32


def test_strings_are_a_type_error():
    with pytest.raises(TypeError):
        jnp.asarray(TensorSequence([["a"]])[0])


def test_a_sequence_is_a_list_of_arrays_to_jax():
    """In a pytree a sequence would be one leaf, so it goes in as a list."""
    seq = TensorSequence([[1.0, 2.0], [3.0]], dtype="float32")
    doubled = jax.tree.map(lambda x: x * 2, list(seq))
    assert_holds(TensorSequence(doubled), [np.float32([2, 4]), np.array([6], np.float32)])


# --- its arrays into sequences ---


@pytest.mark.parametrize("name", NUMBER_NAMES)
def test_arrays_are_taken_by_reference(name):
    source = filled(name, (2, 6))
    made = jnp.asarray(source)
    seq = TensorSequence([made])
    seq.append(made)
    seq[1:1] = [made.T]
    assert_holds(seq, [source, source.T, source])
    assert seq[0].__array_interface__["data"][0] == made.unsafe_buffer_pointer()
    assert made in seq
    del made
    gc.collect()
    assert_holds(seq, [source, source.T, source])
    assert pickle.loads(pickle.dumps(seq)) == seq


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
@pytest.mark.parametrize("name", ["float32", "bfloat16", "bool"])
def test_odd_shapes_go_in(name, shape):
    assert_holds(TensorSequence([jnp.asarray(filled(name, shape))]), [filled(name, shape)])


def test_arrays_are_split_and_joined():
    made = jnp.arange(6.0).reshape(3, 2)
    pieces = split_to_sequence(made, keepdims=0)
    assert_holds(pieces, list(np.arange(6.0).reshape(3, 2)))
    assert same(concat_from_sequence(pieces, 0, new_axis=1), np.asarray(made))
    assert_holds(split_to_sequence(made, jnp.array([1, 2])), [np.asarray(made[:1]), np.asarray(made[1:])])


def test_what_is_deleted_later_stays():
    made = jnp.arange(1000.0)
    seq = TensorSequence([made])
    made.delete()
    _ = [jnp.ones(1000) * n for n in range(20)]
    assert_holds(seq, [np.arange(1000.0)])


def test_what_is_given_away_later_stays():
    made = jnp.arange(1000.0)
    seq = TensorSequence([made])
    jax.jit(lambda x: x * 0, donate_argnums=0)(made).block_until_ready()
    assert_holds(seq, [np.arange(1000.0)])


def test_a_body_may_be_compiled():
    seq = TensorSequence([[1.0, 2.0], [3.0]], dtype="float32")
    assert_holds(
        sequence_map(jax.jit(lambda x: x * 2), seq, max_workers=2),
        [np.float32([2, 4]), np.array([6], np.float32)],
    )


def deleted():
    made = jnp.ones(2)
    made.delete()
    return made


OTHERS = {
    "key": (lambda: jax.random.key(0), "key_data"),
    "keys": (lambda: jax.random.split(jax.random.key(0), 3), "key_data"),
    "int4": (lambda: jnp.ones(2, jnp.int4), "int4"),
    "float8": (lambda: jnp.ones(2, jnp.float8_e4m3fn), "float8"),
    "deleted": (deleted, "deleted"),
    "shape": (lambda: jax.ShapeDtypeStruct((2,), jnp.float32), "expected an array"),
}


@pytest.mark.parametrize(("make", "match"), OTHERS.values(), ids=OTHERS)
def test_other_arrays_are_errors(make, match):
    refused(make(), TypeError, match)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())])
def test_traced_values_are_type_errors(transform):
    def body(x):
        refused(x, TypeError, "traced array")
        return x

    transform(body)(jnp.ones(3))
