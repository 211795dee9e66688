"""Mistakes at the doors of the core: splits, positions, pickles, calls of bodies."""

from hardening.mutants.planted import Mutant

PICKLES = "pickling sequence/test_values.py core/test_runs.py"

MUTANTS = [
    Mutant(
        "an offset past the values passes",
        "if offsets[i] < before or offsets[i] > whole:",
        "if offsets[i] < before:",
        "ragged",
    ),
    Mutant(
        "a length may exceed the row of a padded batch",
        "if not 0 <= length <= width:",
        "if not 0 <= length:",
        "ragged",
    ),
    Mutant(
        "an array of small integers is a position",
        'dtype.kind != "i" or dtype.itemsize not in (4, 8):',
        'dtype.kind != "i":',
        "operators sequence arguments",
    ),
    Mutant(
        "a negative axis counts from one too far",
        "    return <int>(given + rank if given < 0 else given)\n",
        "    return <int>(given + rank - 1 if given < -1 else given + rank if given < 0 else given)\n",
        "operators",
    ),
    Mutant(
        "a new axis at the negative end is out of range",
        "join(share.store, sequence._dtype, <int>(given + rank if given < 0 else given), stacking)",
        "join(share.store, sequence._dtype, <int>(max(given + rank - stacking, 0) if given < 0 else given), "
        "stacking)",
        "operators",
    ),
    Mutant(
        "arrays of one memory and shape are one, whatever their strides",
        "(<char *>source.shape)[:2 * source.ndim * sizeof(Py_ssize_t)])",
        "(<char *>source.shape)[:source.ndim * sizeof(Py_ssize_t)])",
        PICKLES,
    ),
    Mutant(
        "views reach as far as the last one of them",
        "        stop = max(stop, piece.start + piece.length)",
        "        stop = piece.start + piece.length",
        f"{PICKLES} arrow",
    ),
    Mutant(
        "views begin where the first one of them does",
        "        start = min(start, piece.start)\n",
        "",
        f"{PICKLES} arrow",
    ),
    Mutant(
        "numbers that fall are used from the first on",
        "self.use(part, min(number[done - span.n], number[done - 1]),",
        "self.use(part, number[done - span.n],",
        PICKLES,
    ),
    Mutant(
        "runs that fall are used from the first on",
        "self.use(row[0], min(run.first, last), max(run.first, last))",
        "self.use(row[0], run.first, max(run.first, last))",
        PICKLES,
    ),
    Mutant(
        "tensors whose axes are in another order go as they are in memory",
        "if source.kind == PADDED or (source.kind == SHAPED and not is_in_order(source)):",
        "if source.kind == PADDED:",
        f"{PICKLES} arrow",
    ),
    Mutant(
        "sequences of two types may be equal",
        "        if self._dtype is not (<TensorSequence>other)._dtype:\n            return False\n",
        "",
        "sequence",
    ),
    Mutant(
        "a failure behind another one moves the bound back",
        "            if position < root.position:\n",
        "            if True:\n",
        "maps",
    ),
    Mutant(
        "a body may return more outputs than before",
        "if isinstance(result, tuple) == single or (not single and len(<tuple>result) != n):",
        "if isinstance(result, tuple) == single or (not single and len(<tuple>result) < n):",
        "maps",
    ),
    Mutant(
        "an iterator that came to its end goes on where elements are added",
        "                self.position = -1\n",
        "                pass\n",
        "sequence threads",
    ),
]
