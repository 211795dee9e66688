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
        "a range of lengths is judged by its first one alone",
        "for at, end in ((0, lengths[0]), (-1, lengths[-1])):",
        "for at, end in ((0, lengths[0]),):",
        "operators ragged core/test_limits.py",
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
        "parts.use(part, min(number[done - span.n], number[done - 1]),",
        "parts.use(part, number[done - span.n],",
        PICKLES,
    ),
    Mutant(
        "runs that fall are used from the first on",
        "parts.use(row[0], min(first, last), max(first, last))",
        "parts.use(row[0], first, max(first, last))",
        PICKLES,
    ),
    Mutant(
        "tensors whose axes are in another order go as they are in memory",
        "if source.kind == PADDED or (source.kind == SHAPED and not is_in_order(source)):",
        "if source.kind == PADDED:",
        f"{PICKLES} arrow",
    ),
    Mutant(
        "runs of two steps are merged",
        "& (runs[1:, 2] == runs[:-1, 2]) &",
        "&",
        f"{PICKLES} files",
    ),
    Mutant(
        "a damaged run may end outside of its part",
        "or not 0 <= first < size or not 0 <= first + (n - 1) * step < size or",
        "or not 0 <= first < size or",
        PICKLES,
    ),
    Mutant(
        "a damaged number may be negative",
        "if len(numbers) and (numbers.min() < 0 or np.any(",
        "if len(numbers) and (np.any(",
        PICKLES,
    ),
    Mutant(
        "a file of another type is taken",
        "if not isinstance(column, Container) or (<Container>column)._dtype is not dtype:",
        "if not isinstance(column, Container):",
        PICKLES,
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
