"""pyarrow's tests of the C data interface: what it exports goes through a sequence or Columns first."""

import re
from pathlib import Path

import pyarrow as pa
from hardening.others.outcomes import Report, run_rewritten

import seqcore as sq

EXCEPTIONS = {}


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
    text = re.sub(
        r"\b(arr|obj|batch|chunked)\.(__arrow_c_(?:array|stream)__)\(", r"_ours.through(\1).\2(", text
    )
    text = re.sub("^import ", "import hardening.others.arrow as _ours\nimport ", text, count=1, flags=re.M)
    chosen = "(array or batch or reader) and not device and not schema_capsule and not binary_view"
    return Report("pyarrow, C data interface", run_rewritten({"test_cffi.py": text}, chosen), EXCEPTIONS)
