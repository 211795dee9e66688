"""Odd arguments of which it is known what they are: errors that name the remedy, or as good as others."""

import dataclasses

import numpy as np
import pytest
from support.odd_values import (
    HUGE,
    Index,
    LongList,
    LyingArray,
    LyingSequence,
    MuteInt,
    MuteObject,
    MuteStr,
    ReprOfAnotherKind,
    ShortList,
    Spite,
    claims,
)
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence
from seqcore._arguments.shown import add_note, described, shown, shown_error, shown_number

MODEL = [np.arange(2), np.arange(3), np.arange(1)]


def made():
    return TensorSequence(MODEL)


# --- how messages show values ---


SHOWN = [
    (7, "7"),
    (-(10**50), "-1" + "0" * 50),
    (HUGE, "<int of 16610 bits>"),
    (-HUGE, "<negative int of 16610 bits>"),
    (True, "True"),
    ("text", "'text'"),
    (MuteObject(), "<MuteObject object>"),
    (MuteInt(3), "<MuteInt object>"),
    (MuteStr("a"), "<MuteStr object>"),
    ([HUGE], "<list object>"),
    (ReprOfAnotherKind(), "x" * 59 + "…"),
    ("x" * 1000, "'" + "x" * 58 + "…"),
]


@pytest.mark.parametrize("i", range(len(SHOWN)))
def test_a_value_in_a_message(i):
    value, text = SHOWN[i]
    assert shown(value) == text
    assert type(shown(value)) is str


def test_a_number_in_a_message():
    for value in (7, np.int64(7), np.array([7], np.int32), MuteInt(7)):
        assert shown_number(value) == "7"


def test_an_error_without_a_text():
    assert shown_error(ValueError("why")) == "why"
    assert shown_error(ValueError(MuteObject())) == "its message can't be shown"
    assert described(KeyError()) == "KeyError"


# --- integers ---

POSITIONS = {
    "get": lambda s, x: s[x],
    "set": lambda s, x: s.__setitem__(x, np.arange(1)),
    "delete": lambda s, x: s.__delitem__(x),
    "insert": lambda s, x: s.insert(x, np.arange(1)),
    "pop": lambda s, x: s.pop(x),
    "erase": lambda s, x: s.erase(x),
    "sequence_at": lambda s, x: sq.sequence_at(s, x),
    "sequence_insert": lambda s, x: sq.sequence_insert(s, np.arange(1), x),
    "sequence_erase": lambda s, x: sq.sequence_erase(s, x),
}
LENGTHS = {
    "split": lambda s, x: sq.split_to_sequence(np.arange(3), x),
    "from_lengths": lambda s, x: TensorSequence.from_lengths(np.arange(3), x),
    "from_offsets": lambda s, x: TensorSequence.from_offsets(np.arange(3), x),
    "from_padded": lambda s, x: TensorSequence.from_padded(np.zeros((2, 3)), x),
    "shape": lambda s, x: s.to_padded(shape=x),
    "multiple_of": lambda s, x: s.to_padded(multiple_of=x),
}
NUMBERS = {
    "axis": lambda s, x: sq.split_to_sequence(np.arange(3), axis=x),
    "axis of a join": lambda s, x: sq.concat_from_sequence(s, x),
    "one length": lambda s, x: sq.split_to_sequence(np.arange(3), x),
    "one extent": lambda s, x: s.to_padded(shape=x),
    "batch_size": lambda s, x: sq.map_batches(np.negative, s, batch_size=x),
    "max_workers": lambda s, x: sq.sequence_map(np.negative, s, max_workers=x),
    "workers of batches": lambda s, x: sq.map_batches(np.negative, s, max_workers=x),
    "chunksize": lambda s, x: sq.sequence_map(np.negative, s, chunksize=x),
}


@dataclasses.dataclass
class BoolOfPyTorch:
    """As a tensor of rank 0 of PyTorch, which Python takes for the index 0 or 1."""

    value: bool
    dtype, ndim = "torch.bool", 0

    def __index__(self):
        return int(self.value)

    def __bool__(self):
        return self.value


BOOLS = {"True": True, "NumPy's": np.True_, "of rank 0": np.array(True), "PyTorch's": BoolOfPyTorch(True)}
ROWS_OF_BOOLS = {
    "a list": [True, True],
    "among integers": [2, True],
    "NumPy's among integers": (np.True_, 2),
    "of rank 0 among integers": [2, np.array(True)],
    "PyTorch's": [BoolOfPyTorch(True)] * 2,
    "an array": np.array([True, True]),
}
MASKED = {
    "an array": np.ma.array([1, 2], mask=[False, True]),
    "all there": np.ma.array([1, 2]),
    "of rank 0": np.ma.array(1, mask=True),
}


@pytest.mark.parametrize("call", POSITIONS)
def test_a_position_of_thousands_of_digits_is_out_of_range(call):
    seq = made()
    for huge in (HUGE, -HUGE, Index(HUGE), MuteInt(HUGE)):
        with pytest.raises(IndexError, match=r"position <.{,40}> is out of range for a sequence of 3"):
            POSITIONS[call](seq, huge)
        assert_holds(seq, MODEL)


@pytest.mark.parametrize("call", LENGTHS | NUMBERS)
def test_numbers_of_thousands_of_digits_are_shown_by_their_size(call):
    given = [-HUGE, 3] if call in ("split", "from_lengths", "from_offsets", "from_padded") else -HUGE
    # Rows are of 64 bits, to whose ends such numbers are brought.
    with pytest.raises(ValueError, match=r"<negative int of 16610 bits>|-9223372036854775808"):
        (LENGTHS | NUMBERS)[call](made(), given)


NO_INTEGERS = [(call, value) for call in NUMBERS for value in BOOLS]
NO_INTEGERS += [(call, value) for call in POSITIONS for value in BOOLS]


@pytest.mark.parametrize(("call", "value"), NO_INTEGERS)
def test_a_bool_is_no_integer(call, value):
    seq = made()
    with pytest.raises(TypeError):
        (POSITIONS | NUMBERS)[call](seq, BOOLS[value])
    assert_holds(seq, MODEL)


@pytest.mark.parametrize("kind", [bool, np.bool_, np.array, BoolOfPyTorch])
def test_a_list_of_bools_is_a_mask(kind):
    mask = [kind(one) for one in (False, True, True)]
    assert_holds(made()[mask], MODEL[1:])
    assert sq.Columns({"x": [0, 1, 2]})[mask]["x"].tolist() == [1, 2]
    with pytest.raises(TypeError, match="1 bool among 2"):
        made()[[0, kind(True)]]


@pytest.mark.parametrize("value", ROWS_OF_BOOLS)
@pytest.mark.parametrize("call", LENGTHS)
def test_bools_are_no_lengths(call, value):
    with pytest.raises(TypeError):
        LENGTHS[call](made()[:2], ROWS_OF_BOOLS[value])


@pytest.mark.parametrize("value", MASKED)
@pytest.mark.parametrize("call", LENGTHS)
def test_masked_arrays_are_no_lengths(call, value):
    with pytest.raises(TypeError, match=r"mask would be lost: use \.filled\(\) or \.data"):
        LENGTHS[call](made(), MASKED[value])


@pytest.mark.parametrize("call", POSITIONS | NUMBERS)
def test_a_masked_array_of_rank_0_is_no_integer(call):
    with pytest.raises(TypeError):
        (POSITIONS | NUMBERS)[call](made(), MASKED["of rank 0"])


def test_masked_arrays_among_positions():
    seq = made()
    for where in ([MASKED["of rank 0"]], [0, MASKED["of rank 0"]], MASKED["an array"]):
        with pytest.raises(TypeError, match="mask"):
            seq[where]
        with pytest.raises(TypeError, match="mask"):
            del seq[where]
    assert_holds(seq, MODEL)


def test_other_integers_are_as_good_as_before():
    assert sq.split_to_sequence(np.arange(3), [np.int8(2), 1]).lengths().tolist() == [2, 1]
    assert sq.split_to_sequence(np.arange(3), range(1, 3)).lengths().tolist() == [1, 2]
    assert sq.split_to_sequence(np.arange(3), MuteInt(2)).lengths().tolist() == [2, 1]
    assert made().to_padded(shape=Index(5)).shape == (3, 5)
    assert len(sq.map_batches(np.negative, made(), batch_size=np.array(2))) == 3
    assert sq.concat_from_sequence(made(), np.int64(0), new_axis=False).shape == (6,)
    assert made()[MuteInt(1)].tolist() == [0, 1, 2]


# --- what says other things of itself ---


def test_an_out_that_lies_is_looked_at_itself():
    """Written to by its own word, memory behind its end would be overwritten."""
    seq = TensorSequence([np.arange(1000.0)])
    with pytest.raises(TypeError, match="int64"):
        seq.to_padded(out=np.zeros((1, 1), np.int64).view(LyingArray))
    with pytest.raises(ValueError, match=r"\(1, 1\)"):
        seq.to_padded(out=np.zeros((1, 1)).view(LyingArray))


def test_an_array_that_lies_goes_in_as_what_it_is():
    lying = np.full((1, 1), 7).view(LyingArray)
    with pytest.raises(TypeError, match="int64"):
        TensorSequence([lying], dtype="float64")
    seq = TensorSequence([lying])
    assert_holds(seq, [np.full((1, 1), 7)])
    assert seq.pinned_nbytes == 8


def test_a_position_in_an_array_that_lies():
    assert made()[np.full((), 1).view(LyingArray)].tolist() == [0, 1, 2]
    with pytest.raises(IndexError, match="position 7"):
        sq.sequence_at(made(), np.full((), 7).view(LyingArray))


def test_what_only_says_that_it_is_an_array():
    with pytest.raises(TypeError, match="a position must be an integer, got <"):
        made()[claims(np.ndarray)]


@pytest.mark.parametrize("kind", [LongList, ShortList])
def test_lists_are_as_long_as_what_they_give(kind):
    assert sq.sequence_length(kind([[1], [2]])) == 2
    assert len(sq.sequence_insert(kind([[1]]), [2])) == 2
    assert made().to_padded(shape=kind([4])).shape == (3, 4)
    assert made()[:0].to_padded(shape=kind([4])).shape == (0, 4)


def test_a_sequence_that_lies_is_looked_at_itself():
    lying = LyingSequence(MODEL)
    assert sq.sequence_length(lying) == 3
    assert sq.sequence_at(lying, 1).tolist() == [0, 1, 2]
    assert_holds(sq.sequence_map(np.negative, lying), [-one for one in MODEL])


def test_a_class_is_no_element_type():
    for kind in (MuteObject, list, dict):
        with pytest.raises(TypeError, match="is not an element type"):
            sq.sequence_empty(kind)
    assert sq.sequence_empty(object).dtype == sq.sequence_empty(np.object_).dtype == object


# --- one exception, raised again ---


def _failing(error):
    def body(element):
        raise error

    return body


@pytest.mark.parametrize("options", [{}, {"max_workers": 2, "chunksize": 1}])
@pytest.mark.parametrize("run", [sq.sequence_map, sq.map_batches])
def test_a_note_is_there_once(run, options):
    if run is sq.map_batches:
        options = {"max_workers": options.get("max_workers", 1), "batch_size": 1}
    error = RuntimeError("again")
    for _ in range(3):
        with pytest.raises(RuntimeError, match="again"):
            run(_failing(error), made(), **options)
    assert error.__notes__ == ["raised for element 0 of a SequenceMap"]


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int = 1


def test_an_exception_that_takes_no_note_is_raised_all_the_same():
    own = RuntimeError("x")
    own.__notes__ = "no list"
    for error in (Frozen(), own):
        with pytest.raises(type(error)) as caught:
            sq.sequence_map(_failing(error), made())
        assert caught.value is error


def test_notes_of_other_texts_stay_beside_each_other():
    error = ValueError()
    for note in ("a", "b", "a"):
        add_note(error, note)
    assert error.__notes__ == ["a", "b"]


def test_an_error_of_a_result_without_a_text():
    class Result:
        def __array__(self, dtype=None, copy=None):
            raise TypeError(MuteObject())

    with pytest.raises(TypeError, match="element 0 of the map: its message can't be shown"):
        sq.sequence_map(lambda element: Result(), made())


def test_what_a_conversion_raises_goes_through():
    class Raises:
        def __index__(self):
            raise Spite

    for call in (*POSITIONS.values(), *NUMBERS.values()):
        if call is NUMBERS["one length"]:
            continue  # which asks for an array
        with pytest.raises(Spite):
            call(made(), Raises())


def test_rows_of_integers_of_any_make():
    values = np.arange(3)
    for lengths in (
        [1, 2],
        (1, 2),
        range(1, 3),
        bytearray(b"\1\2"),
        [np.int8(1), MuteInt(2)],
        LongList([1, 2]),
    ):
        assert TensorSequence.from_lengths(values, lengths).lengths().tolist() == [1, 2]
    for none in ([], (), LongList()):
        assert len(TensorSequence.from_lengths(values[:0], none)) == 0
    for wrong in (b"\1\2", "12", [1, "2"], [b"1"], [1.5], [None]):
        with pytest.raises(TypeError, match="lengths must be integers"):
            TensorSequence.from_lengths(values, wrong)
    for wrong in ([1, 2**63], [-(2**63) - 1, 2], (2**64, MuteInt(1))):
        with pytest.raises(ValueError, match=r"lengths"):
            TensorSequence.from_lengths(values, wrong)
