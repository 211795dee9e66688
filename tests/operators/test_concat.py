"""concat_from_sequence: types, layouts, edited sequences and what can't be joined; the oracle is NumPy."""

import numpy as np
import pytest
from support.processes import output_of
from support.strategies import NAMES, dtype_of, filled, types_and_layouts
from test_split import LAYOUTS, assert_same, laid_out, native

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(3)


def joined(tensors, axis, new_axis=0):
    """Join by NumPy, with the type that goes into a sequence."""
    return native((np.stack if new_axis else np.concatenate)(tensors, axis))


@pytest.mark.parametrize(("name", "layout"), types_and_layouts(LAYOUTS))
class TestTypesAndLayouts:
    @pytest.mark.mostly_slow(13)
    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
    def test_along_a_new_axis(self, name, layout, axis):
        tensors = [laid_out(filled(name, (3, 2), 10 * seed), layout) for seed in range(4)]
        seq = sq.TensorSequence(tensors)
        assert_same(sq.concat_from_sequence(seq, axis, new_axis=1), joined(tensors, axis, 1))


def test_result_outlives_its_strings():
    words = [np.array([f"{number:040}" for number in range(start, start + 50)], object) for start in (0, 50)]
    result = sq.concat_from_sequence(sq.TensorSequence(words), 0)
    del words
    assert [int(word) for word in result] == [*range(100)]


class TestErrors:
    @pytest.mark.parametrize("new_axis", [0, 1])
    @pytest.mark.parametrize("name", NAMES)
    def test_nothing_to_join(self, name, new_axis):
        with pytest.raises(ValueError, match="empty"):
            sq.concat_from_sequence(sq.sequence_empty(dtype_of(name)), 0, new_axis)

    @pytest.mark.parametrize("misfit", [(2, 4), (0, 4), (2, 3, 1), (3,), ()])
    @pytest.mark.parametrize("position", [1, 2])
    def test_shape_does_not_fit(self, position, misfit):
        tensors = [np.zeros((2, 3))] * 2
        tensors.insert(position, np.zeros(misfit))
        with pytest.raises(ValueError, match=rf"\b{position}\b"):
            sq.concat_from_sequence(tensors, 0)

    @pytest.mark.parametrize("misfit", [(2, 4), (1, 3), (3, 2), (2, 3, 1), (6,)])
    def test_shape_does_not_fit_on_a_new_axis(self, misfit):
        with pytest.raises(ValueError, match=r"\b2\b"):
            sq.concat_from_sequence([np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(misfit)], 0, new_axis=1)

    def test_empty_elements_have_to_fit_too(self):
        with pytest.raises(ValueError, match=r"\b1\b"):
            sq.concat_from_sequence([np.zeros((2, 3)), np.zeros(0)], 0)

    def test_scalars_need_a_new_axis(self):
        with pytest.raises(ValueError, match="new_axis"):
            sq.concat_from_sequence([np.array(1), np.array(2)], 0)

    @pytest.mark.parametrize("axis", [2, -3, 64, 2**31, 2**63, -(2**63) - 1, 2**70])
    def test_axis_out_of_range(self, axis):
        with pytest.raises(ValueError, match=rf"axis {axis} .*-2.*\b1\b"):
            sq.concat_from_sequence([np.zeros((2, 3))] * 2, axis)

    @pytest.mark.parametrize("axis", [3, -4, 2**63])
    def test_new_axis_out_of_range(self, axis):
        with pytest.raises(ValueError, match=rf"axis {axis} .*-3.*\b2\b"):
            sq.concat_from_sequence([np.zeros((2, 3))] * 2, axis, new_axis=1)


STACKS = """
import numpy as np
import seqcore as sq

for shape in ((3, 1000, 1000), (3, 1000, 0), (3, 0, 1000)):
    seq = sq.TensorSequence.from_lengths(np.ones(shape), [0, 1, 0, 2, 0])
    for some in (seq[:1], seq[::2], seq[[4, 0, 2]], sq.TensorSequence([seq[0], seq[2].copy()]), seq[4:]):
        n = len(some)
        assert sq.concat_from_sequence(some, 0, 1).shape == (n, 0, *shape[1:])
        assert sq.concat_from_sequence(some, 1, 1).shape == (0, n, *shape[1:])
        assert sq.concat_from_sequence(some, 0).shape == (0, *shape[1:])
        assert some.to_padded().shape == (n, 0, *shape[1:])
        assert some.values().shape == (0, *shape[1:])
        some.copy().compact()
    if 0 in shape:
        assert sq.concat_from_sequence(seq, 0).shape == shape
        assert sq.concat_from_sequence(seq[[3, 1, 3]], 0).shape == (5, *shape[1:])
        assert sq.concat_from_sequence(seq[[1, 1]], 0, 1).shape == (2, 1, *shape[1:])
"""


@pytest.mark.slow
def test_stacks_of_elements_without_items():
    """Of a table that has some: nothing is copied. In a process of its own, which a copy would end."""
    output_of("-c", STACKS)
