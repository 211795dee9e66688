"""Write Columns to a file, part by part: a table with a column for each name."""

from seqcore._arrow.fields import FORMATS, Column
from seqcore._arrow.layouts import Tensors
from seqcore._arrow.tables import Arrays, about_column, parts_of, table_field
from seqcore._files.parts import about
from seqcore._files.writing import Writer, checked, file_layout, with_bytes
from seqcore.columns import Columns
from seqcore.core.arrow_export import array_capsule, schema_capsule
from seqcore.core.layout import lie_together
from seqcore.dtypes import type_name

_BATCH = 1 << 30  # bytes of a batch
_COPIED = 64 << 20  # bytes of a batch whose elements are scattered


class TableWriter(Writer):
    """A temporary file with Columns, which will replace another one.

    The first part with rows decides the types of the columns.
    """

    def __init__(self, writer):
        """Take the open file of a writer that has written nothing."""
        super().__init__(writer.pa, writer.target)
        self.temporary, self.file = writer.temporary, writer.file
        self.first = None

    def write(self, part, name):
        """Write Columns; `name` is their name in messages."""
        if not isinstance(part, Columns):
            raise TypeError(f"{name} is a {type(part).__name__}, expected Columns as the parts before")
        if self.first is None:
            self.first = part[:0]
        self._check(part, name)
        if len(part):
            try:
                layouts = self._layouts_for(part)
            except (TypeError, ValueError) as error:
                raise about(name, error) from error
            for batch in _batches_of(part):
                self._put(batch, layouts)

    def finish(self):
        if self.layout is None:
            self._begin(_layouts_of(self.first))
        super().finish()

    def _check(self, part, name):
        """Raise if a part has other columns or dtypes than the first one."""
        if part.dtypes != self.first.dtypes:
            theirs, ours = (
                ", ".join(f"{key} {type_name(dtype)}" for key, dtype in one.dtypes.items())
                for one in (part, self.first)
            )
            raise TypeError(f"{name} has the columns {theirs}, expected {ours} as the parts before")

    def _layouts_for(self, part):
        """Return the layouts of a part, of the types that the file has."""
        if self.layout is None:
            layouts = _layouts_of(part)
            self._begin(layouts)
            return layouts
        layouts = {}
        for name, seq, inner in parts_of(part):
            own = self.layout[name]
            try:
                layout = _layout_of(seq, inner, own.field if isinstance(own, Tensors) else None)
            except (TypeError, ValueError) as error:
                raise about_column(name, error) from error
            if not layout.field.is_like(own.field):
                raise ValueError(
                    f"column {name!r} has elements of another rank, or of other lengths behind axis 0, than "
                    f"the parts before: {layout.field.type_name}, expected {own.field.type_name}"
                )
            layouts[name] = layout
        return layouts

    def _begin(self, layouts):
        self._begin_with(layouts, table_field({name: layout.field for name, layout in layouts.items()}))

    def _put(self, part, layouts):
        children = tuple(checked(layouts[name].column(seq)) for name, seq, _ in parts_of(part))
        table = _Table(self.field, Column(len(part), (None,), children))
        self.batches.write_batch(self.pa.record_batch(table))


class _Table:
    """A record batch for pyarrow to import."""

    def __init__(self, field, column):
        self.field, self.column = field, column

    def __arrow_c_array__(self, requested_schema=None):
        return schema_capsule(self.field), array_capsule(self.column)


def _layouts_of(columns):
    layouts = {}
    for name, seq, inner in parts_of(columns):
        try:
            layouts[name] = _layout_of(seq, inner, None)
        except (TypeError, ValueError) as error:
            raise about_column(name, error) from error
    return layouts


def _layout_of(seq, inner, asked):
    """Return the layout of a column in a file, where bools are bytes."""
    if inner is None or seq.dtype not in FORMATS:
        return file_layout(seq, asked)
    layout = Arrays(seq.dtype, inner)
    return Arrays(seq.dtype, inner, with_bytes(layout.field)) if seq.dtype.kind == "b" else layout


def _batches_of(columns):
    """Yield slices of Columns that are small enough for a batch."""
    together = all(lie_together(seq) for _, seq, _ in parts_of(columns))
    count = max(1, -(-columns.nbytes // (_BATCH if together else _COPIED)))
    size = max(1, -(-len(columns) // count))
    for first in range(0, len(columns), size):
        yield columns[first : first + size]
