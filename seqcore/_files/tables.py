"""Write Columns to a file, part by part: a table with a column for each name."""

from seqcore._arguments.shown import prefixed
from seqcore._arrow.fields import FORMATS
from seqcore._arrow.layouts import Tensors
from seqcore._arrow.tables import Arrays, layouts_of, parts_of
from seqcore._files.parts import slices_of
from seqcore._files.writing import Writer, file_layout, with_bytes
from seqcore.columns import Columns
from seqcore.core.layout import lie_together
from seqcore.dtypes import type_name


class TableWriter(Writer):
    """A temporary file with Columns, which will replace another one.

    The first part with rows decides the types of the columns.
    """

    def __init__(self, writer, first):
        """Take the open file of a writer that has written nothing, and the columns without rows."""
        super().__init__(writer.pa, writer.target)
        self.temporary, self.file, self.first = writer.temporary, writer.file, first

    def write(self, part, name):
        """Write Columns; `name` is their name in messages."""
        if not isinstance(part, Columns):
            raise TypeError(f"{name} is a {type(part).__name__}, expected Columns as the parts before")
        self._check(part, name)
        if len(part):
            try:
                layouts = self._layouts_for(part)
            except (TypeError, ValueError) as error:
                raise prefixed(name, error) from error
            together = all(lie_together(seq) for _, seq, _ in parts_of(part))
            for batch in slices_of(part, together):
                columns = [layouts[column].column(seq) for column, seq, _ in parts_of(batch)]
                self._write_batch(len(batch), columns)

    def finish(self):
        if self.layout is None:
            self._begin(layouts_of(self.first, _layout_of))
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
            layouts = layouts_of(part, _layout_of)
            self._begin(layouts)
            return layouts
        layouts = {}
        for name, seq, inner in parts_of(part):
            own = self.layout[name]
            try:
                layout = _layout_of(seq, inner, own.field if isinstance(own, Tensors) else None)
            except (TypeError, ValueError) as error:
                raise prefixed(f"column {name!r}", error) from error
            if not layout.field.is_like(own.field):
                raise ValueError(
                    f"column {name!r} has elements of another rank, or of other lengths behind axis 0, than "
                    f"the parts before: {layout.field.type_name}, expected {own.field.type_name}"
                )
            layouts[name] = layout
        return layouts

    def _begin(self, layouts):
        self.layout = layouts
        self._write_types({name: layout.field for name, layout in layouts.items()})


def _layout_of(seq, inner, asked=None):
    """Return the layout of a column in a file, where bools are bytes."""
    if inner is None or seq.dtype not in FORMATS:
        return file_layout(seq, asked)
    layout = Arrays(seq.dtype, inner)
    return Arrays(seq.dtype, inner, with_bytes(layout.field)) if seq.dtype.kind == "b" else layout
