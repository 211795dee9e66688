"""pyarrow's tests of the C data interface: what it exports goes through a sequence or Columns first."""

import re
from pathlib import Path

import pyarrow as pa
from hardening.others.outcomes import Report, run_rewritten

import seqcore as sq

_NULLS = "the second batch has a null, which tensors can't represent"
_TYPES = "Columns export large lists and strings, whatever schema is requested, as the interface allows"
EXCEPTIONS = {
    "test_cffi.test_export_import_batch_with_extension": "its extension type is not one of Arrow's own",
    "test_cffi.test_export_import_batch_reader[[]*": _NULLS,
    "test_cffi.test_roundtrip_reader_capsule[[]*": _NULLS,
    "test_cffi.test_roundtrip_array_capsule[[]array[]]": "text is copied, so pyarrow's memory isn't in use",
    "test_cffi.test_roundtrip_array_capsule[[]record_batch[]]": "Columns export a stream only",
    "test_cffi.test_roundtrip_batch_reader_capsule*": _TYPES,
    "test_cffi.test_roundtrip_chunked_array_capsule_requested_schema": "text is not exported as binary",
}


def through(data):
    """Return a sequence of a list array, and Columns of batches, tables and streams."""
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        return sq.TensorSequence.from_arrow(data)
    return sq.Columns.from_arrow(data)


def back(data):
    """Return Arrow's data after it was a sequence or Columns."""
    if isinstance(data, pa.Array):
        return pa.Array._import_from_c_capsule(
            *through(data).__arrow_c_array__(data.type.__arrow_c_schema__())
        )
    table = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
    found = pa.table(through(table)).cast(table.schema)  # Columns export large lists
    if isinstance(data, pa.RecordBatch):
        (batch,) = found.to_batches()
        return batch
    return found.to_reader()


def capsules(data, requested=None):
    """Export a sequence of Arrow's data, in its own type if no other is requested."""
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        requested = requested or data.type.__arrow_c_schema__()
    export = through(data)
    return (export.__arrow_c_array__ if isinstance(data, pa.Array) else export.__arrow_c_stream__)(requested)


def export_array(array, *pointers):
    back(array)._export_to_c(*pointers)


def export_batch(batch, *pointers):
    back(batch)._export_to_c(*pointers)


def run():
    file = Path(pa.__file__).parent / "tests" / "test_cffi.py"
    text = file.read_text(encoding="utf-8")
    text = re.sub(r"pa\.Array\._export_to_c,", "_ours.export_array,", text)
    text = re.sub(r"pa\.RecordBatch\._export_to_c,", "_ours.export_batch,", text)
    text = re.sub(r"\breader\._export_to_c\(", "_ours.back(reader)._export_to_c(", text)
    exports = r"\b(arr|obj|batch|chunked)\.__arrow_c_(?:array|stream)__\(\s*"
    text = re.sub(exports, r"_ours.capsules(\1, ", text)
    text = re.sub("^import ", "import hardening.others.arrow as _ours\nimport ", text, count=1, flags=re.M)
    left_out = "device or schema_capsule or binary_view or error or exception"
    chosen = f"(array or batch or reader) and not ({left_out})"
    return Report("pyarrow, C data interface", run_rewritten({"test_cffi.py": text}, chosen), EXCEPTIONS)
