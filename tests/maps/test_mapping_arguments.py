"""The arrays that a body is called with: one is used again for the next element if nobody else has it."""

import threading
import weakref

import numpy as np
import pytest
from support.counting import done

import seqcore as sq

N = 12


def rows(dtype=np.int16, width=3):
    return sq.split_to_sequence(np.arange(N * width).astype(dtype).reshape(N, width), keepdims=0)


def expected(seq):
    return [element.tolist() for element in seq]


def made(body, *inputs, **options):
    """Map, and return how many arrays were made for elements."""
    return done(lambda: sq.sequence_map(body, *inputs, **options))["arguments_made"]


def test_one_array_is_enough_for_rows_that_nobody_keeps():
    assert made(lambda row: row + 1, rows()) == 1
    assert made(lambda row, other: row + other, rows(), rows(np.float32)) == 2
    assert made(lambda row, other: row + other, rows(), np.ones(3, np.int16)) == 1


# What is kept of an element, and how its numbers are read from that later.
KEEP = {
    "the element": (lambda element: element, np.ndarray.tolist),
    "a view": (lambda element: element[::-1], lambda view: view[::-1].tolist()),
    "a memoryview": (memoryview, memoryview.tolist),
    "an iterator": (lambda element: element.flat, lambda flat: flat.base.tolist()),
    "a frame": (lambda element: (element for _ in range(1)), lambda frame: next(frame).tolist()),
}


@pytest.mark.parametrize(("keep", "read"), KEEP.values(), ids=KEEP)
def test_what_a_body_keeps_never_changes(keep, read):
    seq, kept = rows(), []

    def body(element):
        kept.append(keep(element))
        return np.int64(len(kept))

    assert made(body, seq) == N

    assert [read(one) for one in kept] == expected(seq)


def test_what_a_thread_of_the_body_reads_later_never_changes():
    seq, read, go, threads = rows(), {}, threading.Event(), []

    def later(k, element):
        go.wait(10)
        read[k] = element.tolist()

    def body(element):
        threads.append(threading.Thread(target=later, args=(len(threads), element)))
        threads[-1].start()
        return element[0]

    sq.sequence_map(body, seq)
    go.set()
    for thread in threads:
        thread.join()
    assert [read[k] for k in range(N)] == expected(seq)


def test_a_weak_reference_never_leads_to_another_element():
    seq, references = rows(), []

    def body(element):
        for before in references:
            assert before() is None or before().tolist() == element.tolist()
        references[:] = [weakref.ref(element)]
        return element[:1]

    assert sq.sequence_map(body, seq) == sq.TensorSequence([row[:1] for row in seq])
    assert made(body, seq) == N


def set_shape(element):
    element.shape = (3, 1)


def set_strides(element):
    element.strides = (0,)


def set_dtype(element):
    element.dtype = np.uint16


def clear_alignment(element):
    element.setflags(align=False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("change", [set_shape, set_strides, set_dtype, clear_alignment])
def test_an_array_that_a_body_has_changed_is_not_used_again(change):
    seq, seen = rows(), []

    def body(element):
        seen.append((element.tolist(), element.dtype, element.shape, element.strides, element.flags.num))
        change(element)
        return np.int64(0)

    assert made(body, seq) == N
    element = seq[0]
    rest = (element.dtype, element.shape, element.strides, element.flags.num)
    assert seen == [(row, *rest) for row in expected(seq)]


@pytest.mark.parametrize("start", [0, 1])
def test_flags_are_right_where_elements_are_aligned_by_turns(start):
    """Rows of 3 bytes, read as numbers of 2 bytes and a gap: every second one is not aligned."""
    memory = np.arange(3 * N + 3, dtype=np.uint8)[start:]
    array = np.ndarray((N, 1), np.int16, memory, strides=(3, 2))
    seq, seen = sq.split_to_sequence(array, keepdims=0), []
    sq.sequence_map(lambda row: seen.append((row.flags.num, row.tolist())) or row[0], seq)
    assert seen == [(row.flags.num, row.tolist()) for row in seq]
    assert len({flags for flags, _ in seen}) == 2
