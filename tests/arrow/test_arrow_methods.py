"""Objects whose methods give no capsules, or other ones than they should: from_arrow raises."""

import numpy as np
import pytest
from support.arrow.c_data import NAMES, Array, ArrayStream, Schema
from support.arrow.producers import Node, Stream, capsule_of
from test_arrow_foreign_errors import NONSENSE, rows

from seqcore import TensorSequence

from_arrow = TensorSequence.from_arrow


def giving(method, give):
    """An object with one method of the protocol, which gives what a function gives."""
    return type("Giving", (), {method: lambda self, requested_schema=None: give()})()


@pytest.mark.parametrize("kind", [Schema, Array, ArrayStream])
@pytest.mark.parametrize("name", [b"", b"arrow", b"arrow_device_array", b"dltensor", *NAMES.values()])
def test_capsules_with_other_names(kind, name):
    if name == NAMES[kind]:
        return
    node, stream = rows(), Stream(rows, [rows()])
    wrong = capsule_of({Schema: node.schema, Array: node.array, ArrayStream: stream.stream}[kind], name)

    def give():
        right = node.__arrow_c_array__()
        return {Schema: (wrong, right[1]), Array: (right[0], wrong), ArrayStream: wrong}[kind]

    with pytest.raises(NONSENSE):
        from_arrow(giving("__arrow_c_stream__" if kind is ArrayStream else "__arrow_c_array__", give))
    assert node.settled()
    assert stream.settled()


@pytest.mark.parametrize(
    "given",
    [None, 5, "ab", (), (1,), (1, 2), (None, None), [1, 2, 3], {}, object()],
)
def test_methods_that_give_nonsense(given):
    for method in ("__arrow_c_array__", "__arrow_c_stream__"):
        with pytest.raises(NONSENSE):
            from_arrow(giving(method, lambda: given))


def test_one_capsule_too_many_or_too_few():
    node = rows()
    pair = node.__arrow_c_array__()
    for given in (pair[:1], (*pair, pair[0]), pair[0], pair[1], pair[::-1], (pair[0], pair[0])):
        with pytest.raises(NONSENSE):
            from_arrow(giving("__arrow_c_array__", lambda given=given: given))
    assert node.settled()


class TornError(Exception):
    pass


def test_methods_that_raise():
    def tear(*of):
        raise TornError("no data any more")

    class TornProperty:
        __arrow_c_array__ = property(tear)

    for one in (giving("__arrow_c_array__", tear), giving("__arrow_c_stream__", tear), TornProperty()):
        with pytest.raises(TornError, match="no data any more"):
            from_arrow(one)


@pytest.mark.parametrize(
    "value",
    [None, 5, "ab", [1, 2], np.arange(3), object(), {}, {"a": [1]}],
)
def test_objects_with_neither_method(value):
    with pytest.raises(TypeError, match="__arrow_c_array__") as caught:
        from_arrow(value)
    assert "__arrow_c_stream__" in str(caught.value)


def test_a_class_is_no_array():
    with pytest.raises(TypeError):
        from_arrow(Node)


def test_a_device_array_alone_has_neither():
    class OnDevice:
        def __arrow_c_device_array__(self, requested_schema=None, **keywords):
            raise AssertionError("nobody asks")

    with pytest.raises(TypeError, match="__arrow_c_array__"):
        from_arrow(OnDevice())
