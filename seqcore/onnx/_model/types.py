"""Types: what is known of a value before the run, and what two of them have in common.

                 any shape                    None
             of one rank               (None, None)
        some lengths known        (None, 4)   (N, None)        N: a name that an input of the model gives
          all known                      (N, 4)
    no element, ever                     NEVER                 of sequences

What may come from two places has the type of both: the lowest line above in which both are. So types only
climb while a loop is followed, and come to rest.
"""

from typing import NamedTuple

from onnx import TypeProto

# A length: a number, a name that an input of the model gives to it, or None for any.
Length = int | str | None
Shape = tuple[Length, ...] | None

TENSOR, SEQUENCE, OPTIONAL = "tensor_type", "sequence_type", "optional_type"
# The shape of a sequence's elements where there never is one. No tensor has a negative length.
NEVER: tuple[int, ...] = (-1,)


class Type(NamedTuple):
    """The known part of a value's type.

    Attributes
    ----------
    kind : str
        As protobuf calls it, `tensor_type` for example; "" where not even that is known.
    number : int
        ONNX's number of the element type of a tensor, or of the tensors inside; 0 where it isn't known.
    shape : tuple of (int, str or None), or None
        Of a tensor, or what the tensors inside have in common.
    inner : str
        The kind of what an optional may hold.
    count : int or None
        The length of a sequence, if it is the same in all runs and each edit is at a known position.
    """

    kind: str = ""
    number: int = 0
    shape: Shape = None
    inner: str = ""
    count: int | None = None  # type: ignore[assignment]  # tuples have a method of that name

    @property
    def is_tensor(self) -> bool:
        """True if it is a tensor. An unknown type counts as one."""
        return self.kind in (TENSOR, "sparse_tensor_type", "")

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)


UNKNOWN = Type()


def tensor(number: int, shape: Shape = None) -> Type:
    return Type(TENSOR, number, shape)


def sequence(number: int, shape: Shape = None, count: int | None = None) -> Type:
    return Type(SEQUENCE, number, shape, count=count)


def join(one: Type, other: Type) -> Type:
    """Return what is known of a value that is of one type or of the other."""
    if one == other:
        return one
    if UNKNOWN in (one, other):
        # It may be of any shape.
        return without_shape(other if one == UNKNOWN else one)
    number = other.number or one.number
    if one.kind != other.kind:
        optional = one if one.kind == OPTIONAL else other
        return Type(optional.kind, number, join_shapes(one.shape, other.shape), optional.inner)
    count = one.count if one.count == other.count else None
    return Type(one.kind, number, join_shapes(one.shape, other.shape), one.inner or other.inner, count)


def join_shapes(one: Shape, other: Shape) -> Shape:
    if one == other or other == NEVER:
        return one
    if one == NEVER:
        return other
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def without_shape(type_: Type) -> Type:
    return type_._replace(shape=None, count=None)


def is_fixed_by_size(shape: Shape) -> bool:
    """Return whether two tensors of such a shape have the same shape if they have the same size."""
    if shape is None:
        return False
    unknown = shape.count(None)
    return not unknown or (
        unknown == 1 and all(length is None or (isinstance(length, int) and length > 0) for length in shape)
    )


def from_type_proto(proto: TypeProto) -> Type:
    """Return the type that a message says, names of lengths as they are."""
    kind = proto.WhichOneof("value") or ""
    if kind == TENSOR:
        tensor_ = proto.tensor_type
        if not tensor_.HasField("shape"):
            return Type(TENSOR, tensor_.elem_type)
        return Type(TENSOR, tensor_.elem_type, shape_of(tensor_))
    if kind == "sparse_tensor_type":
        return Type(kind, proto.sparse_tensor_type.elem_type)
    if kind == SEQUENCE:
        inner = from_type_proto(proto.sequence_type.elem_type)
        if inner.kind in (TENSOR, ""):
            return Type(SEQUENCE, inner.number, inner.shape)
        return Type(f"sequence_of_{inner.kind}")
    if kind == OPTIONAL:
        inner = from_type_proto(proto.optional_type.elem_type)
        return Type(OPTIONAL, inner.number, inner.shape, inner.kind)
    return Type(kind)


def shape_of(tensor_: TypeProto.Tensor) -> Shape:
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor_.shape.dim
    )


def to_type_proto(type_: Type, with_shape: bool = False) -> TypeProto:
    """Return a type as a message, of tensors without a shape unless that is wanted."""
    proto = TypeProto()
    part = proto
    kind = type_.kind or TENSOR
    if kind == OPTIONAL:
        part = part.optional_type.elem_type
        kind = type_.inner
    if kind == SEQUENCE:
        part = part.sequence_type.elem_type
    part.tensor_type.elem_type = type_.number
    if with_shape and type_.shape is not None and type_.shape != NEVER:
        part.tensor_type.shape.SetInParent()
        for length in type_.shape:
            dim = part.tensor_type.shape.dim.add()
            if isinstance(length, int):
                dim.dim_value = length
            elif length:
                dim.dim_param = length
    return proto
