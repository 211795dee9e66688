"""Operators, one record each: what they are, what becomes of values in them, how they run, how they lower."""

from seqcore.onnx._operators import (  # noqa: F401  (each registers its records)
    boundary,
    concat_from_sequence,
    identity,
    if_,
    loop,
    optional,
    scan,
    sequence_at,
    sequence_construct,
    sequence_empty,
    sequence_erase,
    sequence_insert,
    sequence_length,
    sequence_map,
    split_to_sequence,
    tensor_operators,
)
