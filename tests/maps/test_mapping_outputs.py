"""Maps with three outputs, of which one doesn't fit: its element and its number are named on every way."""

import numpy as np
import pytest
from support.bodies import Inline, OneWrong, numbers

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(3)

TYPES = ("int64", "float64", "int64")
WAYS = ("serial", "threads", "threads_in_chunks", "inline", "thread_executor", "process_executor")
OUTPUTS = pytest.mark.parametrize("output", [0, 1, 2])
# What doesn't fit any of the three types, and as what it is refused.
WRONG = {"another type": (np.array([1j]), "complex128"), "no tensor": (np.zeros(1, "M8[s]"), "datetime64")}


@pytest.fixture(params=WAYS)
def way(request, ways):
    return ways.get(request.param) | ({"chunksize": 7} if "executor" in request.param else {})


def in_batches(body, seq, size, new_axis, way):
    options = {name: value for name, value in way.items() if name != "chunksize"}
    return sq.map_batches(body, seq, batch_size=size, new_axis=new_axis, **options)


def assert_names(caught, elements, output):
    assert str(caught.value).startswith(f"{elements} of the map, output {output}: "), caught.value


class TestElements:
    @OUTPUTS
    @pytest.mark.parametrize("wrong", WRONG)
    @pytest.mark.parametrize("at", [1, 6, 7, 29])
    def test_the_element_and_the_output_are_named(self, way, output, wrong, at):
        value, said = WRONG[wrong]
        with pytest.raises(TypeError, match=said) as caught:
            sq.sequence_map(OneWrong(at, output, value), numbers(30), **way)
        assert_names(caught, f"element {at}", output)

    @OUTPUTS
    @pytest.mark.parametrize("at", [0, 7])
    def test_by_types_that_are_given(self, way, output, at):
        with pytest.raises(TypeError, match="complex128") as caught:
            sq.sequence_map(OneWrong(at, output, np.array([1j])), numbers(30), output_dtypes=TYPES, **way)
        assert_names(caught, f"element {at}", output)

    @pytest.mark.parametrize("output", [0, 2])
    def test_numbers_of_python_that_no_type_takes(self, way, output):
        with pytest.raises(OverflowError) as caught:
            sq.sequence_map(OneWrong(7, output, 2**70), numbers(30), output_dtypes=TYPES, **way)
        assert_names(caught, "element 7", output)

    def test_with_progress_all_before_it_is_done(self):
        """The outputs that come before the wrong one have its element already, and count it not."""
        told = []
        with pytest.raises(TypeError, match="element 5 of the map, output 2"):
            sq.sequence_map(
                OneWrong(5, 2, np.array([1j])),
                numbers(30),
                chunksize=1,
                executor=Inline(),
                progress=lambda done, total: told.append(done),
            )
        assert told[-1] == 5


class TestBatches:
    @OUTPUTS
    @pytest.mark.parametrize("new_axis", [0, 1])
    @pytest.mark.parametrize("at", [3, 27])
    @pytest.mark.parametrize("wrong", [np.zeros(3, "M8[s]"), np.array([[1j]] * 3)], ids=["date", "complex"])
    def test_another_type(self, way, output, new_axis, at, wrong):
        with pytest.raises(TypeError) as caught:
            in_batches(OneWrong(at, output, wrong), numbers(30), 3, new_axis, way)
        assert_names(caught, f"elements {at} to {at + 2}", output)

    @OUTPUTS
    @pytest.mark.parametrize("new_axis", [0, 1])
    @pytest.mark.parametrize("at", [0, 3, 27])
    def test_another_length(self, way, output, new_axis, at):
        wrong = [np.zeros(4, "int64"), np.zeros(4), np.zeros(4, "int64")][output]
        with pytest.raises(ValueError, match=r"shape \(4,\) for 3 elements") as caught:
            in_batches(OneWrong(at, output, wrong), numbers(30), 3, new_axis, way)
        assert_names(caught, f"elements {at} to {at + 2}", output)

    @OUTPUTS
    def test_elements_that_stand_apart(self, way, output):
        """Stacked by shapes: the even ones are of one, the odd ones of another."""
        seq = [np.full(1 + i % 2, i) for i in range(24)]
        with pytest.raises(TypeError) as caught:
            in_batches(OneWrong(9, output, np.zeros(1, "M8[s]")), seq, 4, 1, way)
        assert_names(caught, "elements 9, 11, 13, 15", output)


class TestUfuncs:
    """Types that a ufunc doesn't give, of which the block tells nothing and the first element all."""

    @pytest.mark.parametrize(("types", "output"), [(("float32", "int64"), 0), (("int64", "int8"), 1)])
    def test_other_types_than_given(self, way, types, output):
        with pytest.raises(TypeError) as caught:
            sq.sequence_map(np.divmod, numbers(30), 3, output_dtypes=types, **way)
        assert_names(caught, "element 0", output)

    @pytest.mark.parametrize("at", [1, 6, 29])
    def test_an_element_that_fails(self, way, at):
        divisors = sq.TensorSequence([np.ones(1 if i != at else 2, "int64") for i in range(30)])
        seq = sq.TensorSequence([np.ones(1 if i != at else 3, "int64") for i in range(30)])
        with pytest.raises(ValueError, match="broadcast") as caught:
            sq.sequence_map(np.divmod, seq, divisors, **way)
        assert [f"element {at} of a SequenceMap" in note for note in caught.value.__notes__].count(True) == 1
