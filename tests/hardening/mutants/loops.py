"""Mistakes in the loops over elements: reading, joining, padding, comparing, lengths and memory."""

from hardening.mutants.planted import Mutant

READ = "sequence core operators ragged"
EQUAL = "sequence/test_compare.py sequence/test_sequence_look.py core/test_thresholds.py"

MUTANTS = [
    Mutant(
        "a span goes on through the gap",
        "            there = min(there, store.lo - spans.at)         # the gap is in between\n",
        "            pass\n",
        READ,
    ),
    Mutant(
        "a span in the middle of a run with a step begins elsewhere",
        "span.first = run.first + (spans.at - begin_of(store, spans.run)) * run.step",
        "span.first = run.first + (spans.at - begin_of(store, spans.run))",
        READ,
    ),
    Mutant(
        "a damaged element of a later batch is named by its number in the batch",
        "number {owner.first + number} of the file",
        "number {number} of the file",
        "core/test_damaged_offsets.py files",
    ),
    Mutant(
        "the shortest of a split is not noted",
        "            note(measures, block.source.axis, least)\n",
        "            pass\n",
        "ragged",
    ),
    Mutant(
        "an element that begins at the last item of out doesn't overlap it",
        "if first < high + cnp.PyArray_ITEMSIZE(out) and low < last + block.source.itemsize:",
        "if first < high and low < last + block.source.itemsize:",
        "ragged",
    ),
    Mutant(
        "an element whose last item is the first of out doesn't overlap it",
        "if first < high + cnp.PyArray_ITEMSIZE(out) and low < last + block.source.itemsize:",
        "if first < high + cnp.PyArray_ITEMSIZE(out) and low < last:",
        "ragged",
    ),
    Mutant(
        "memory before an element with a negative step is not its own",
        "            first[0] += (length - 1) * stride\n",
        "            pass\n",
        "ragged",
    ),
    Mutant(
        "a value whose first two bytes are alike is filled in by bytes",
        "    for i in range(1, nbytes):\n        if item[i] != item[0]:",
        "    for i in range(1, min(nbytes, 2)):\n        if item[i] != item[0]:",
        "ragged",
    ),
    Mutant(
        "the layout of the right side is that of the element before",
        "if not same_layout(comparison.left, a) or not same_layout(comparison.right, b):",
        "if not same_layout(comparison.left, a):",
        EQUAL,
    ),
    Mutant(
        "-0 and 0 differ in halves",
        "if (x != y and (x | y) & 0x7fff) or",
        "if x != y or",
        EQUAL,
    ),
    Mutant(
        "infinity is NaN in halves",
        "(x & 0x7fff) > infinity:",
        "(x & 0x7fff) >= infinity:",
        EQUAL,
    ),
    Mutant(
        "bools of other bytes than 0 and 1 differ",
        "differ |= (a[j] != 0) ^ (b[j] != 0)",
        "differ |= a[j] ^ b[j]",
        EQUAL,
    ),
    Mutant(
        "the last part of an even split is as long as the others, if it ends a span",
        "        if number + (n - 1) * step == table.n - 1:",
        "        if False:",
        "ragged core/test_runs.py",
    ),
    Mutant(
        "the last part of an even split is as long as the others, if it begins a span",
        "            if number + i * step == table.n - 1:",
        "            if False:",
        "ragged core/test_runs.py",
    ),
    Mutant(
        "offsets of a run with a step are those of its table",
        "if run.source.kind != OFFSETS or run.source.axis != 0 or run.step != 1:",
        "if run.source.kind != OFFSETS or run.source.axis != 0:",
        "ragged core/test_runs.py arrow",
    ),
    Mutant(
        "offsets that begin elsewhere are given as they are",
        "            from_zero and number_at(table.starts, run.first, table.width)):",
        "            False):",
        "ragged core/test_runs.py arrow",
    ),
    Mutant(
        "pieces of two arrays that meet by chance are one view",
        "        if block.source != source or not block.solid or block.row == 0:",
        "        if not block.solid or block.row == 0:",
        "ragged maps core/test_fast_paths.py core/test_thresholds.py",
    ),
    Mutant(
        "a group's shape is that of its first element",
        "alike[0] &= fits_behind(&first, &piece)",
        "alike[0] &= True",
        "sequence core maps",
    ),
    Mutant(
        "memory of a source counts, not the buffer that it is of",
        "        keeper = keeper_of(keeper)\n    if keeper is None:",
        "        keeper = None\n    if keeper is None:",
        "core/test_pinned.py",
    ),
]
