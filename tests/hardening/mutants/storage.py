"""Mistakes in how elements are kept: tables, stores, the container and its selections."""

from hardening.mutants.planted import Mutant

TABLES = "core/test_tables.py core/test_runs.py core/test_damaged_offsets.py operators ragged"
STORES = "sequence core/test_runs.py core/test_others_stay.py core/test_references.py core/test_tables.py"
EDITS = f"{STORES} threads core/test_thresholds_slots.py"

MUTANTS = [
    # -- source and table: where an element is ----------------------------------------------------------
    Mutant(
        "the last part of an even split is as long as the others",
        "piece.length = source.length if number + 1 < table.n else table.last",
        "piece.length = source.length if number < table.n else table.last",
        TABLES,
    ),
    Mutant(
        "an offset may pass the end of the values",
        "        if not table.low <= start <= stop <= table.high:\n            return False\n"
        "        piece.data = source.data + (start - table.low) * table.step\n        piece.start = start\n"
        "        piece.length = stop - start",
        "        if not table.low <= start <= stop:\n            return False\n"
        "        piece.data = source.data + (start - table.low) * table.step\n        piece.start = start\n"
        "        piece.length = stop - start",
        TABLES,
    ),
    Mutant(
        "any step along the axis passes for C order",
        "return axis < 0 or dims[ndim] == stride",
        "return True",
        f"{TABLES} sequence/test_compare.py",
    ),
    Mutant(
        "a negative length of a view passes",
        "if start[i] < 0 or length[i] < 0 or start[i] > whole",
        "if start[i] < 0 or start[i] > whole",
        "pickling",
    ),
    Mutant(
        "padding in front is taken for the element",
        "piece.start = table.high - piece.length if table.left else 0",
        "piece.start = 0",
        TABLES,
    ),
    Mutant(
        "a shape of fewer items than its offsets passes",
        "return items == stop - start",
        "return items <= stop - start",
        f"{TABLES} arrow/test_arrow_tensors.py pickling",
    ),
    Mutant(
        "elements of one table have one shape, whatever their lengths",
        "        return a.length == b.length",
        "        return True",
        f"{TABLES} sequence files",
    ),
    Mutant(
        "elements fit behind each other if all but their last axes agree",
        "        return False\n    for axis in range(1, first.source.ndim):",
        "        return False\n    for axis in range(1, first.source.ndim - 1):",
        f"{TABLES} arrow/test_arrow_consumers.py arrow/test_arrow_out.py maps/test_map_batches.py sequence",
    ),
    Mutant(
        "a dropped axis moves the strides before it too",
        "cnp.PyArray_STRIDE(array, i + (drop_axis and i >= axis))",
        "cnp.PyArray_STRIDE(array, i + drop_axis)",
        TABLES,
    ),
    Mutant(
        "a remainder makes no part",
        "cdef Py_ssize_t n = whole // length + (whole % length != 0)",
        "cdef Py_ssize_t n = max(whole // length, 1)",
        TABLES,
    ),
    # -- buffer: runs, slots and who shares them ---------------------------------------------------------
    Mutant(
        "a hint for a run is believed where the position is before it",
        "if hint < store.nruns and begin_of(store, hint) <= position:",
        "if hint < store.nruns:",
        STORES,
    ),
    Mutant(
        "a run behind another one is merged whatever its step",
        "and (n == 1 or step == last.step):",
        "and True:",
        STORES,
    ),
    Mutant(
        "a run is merged where it begins one behind, whatever the step",
        "if before > 1 and first == last.first + before * last.step and",
        "if before > 1 and first == last.first + (before - 1) * last.step + 1 and",
        STORES,
    ),
    Mutant(
        "slots of a run with a step are those of neighbours",
        "            number += run.step * step if k > 1 else 0",
        "            number += step if k > 1 else 0",
        STORES,
    ),
    Mutant(
        "a part of a store counts users of all of it",
        "if step == 1 and into.capacity == size_of(store):",
        "if step == 1:",
        f"{STORES} arrow/test_arrow_leaks.py",
    ),
    Mutant(
        "slots that others share pass for one's own",
        "if has_runs(old) or read_counter(&old.shares) > 1:",
        "if has_runs(old):",
        EDITS,
    ),
    Mutant(
        "an insert at the gap goes into slots that others share",
        "if own.lo != position or own.lo == own.hi or read_counter(&own.shares) > 1:",
        "if own.lo != position or own.lo == own.hi:",
        EDITS,
    ),
    Mutant(
        "an element is replaced in slots that others share",
        "if read_counter(&store[0].shares) > 1 and open_gap(store, stale, position, 0) != OK:",
        "if False and open_gap(store, stale, position, 0) != OK:",
        EDITS,
    ),
    Mutant(
        "several elements are replaced in slots that others share",
        "if status == OK and read_counter(&store[0].shares) > 1:",
        "if status != OK and read_counter(&store[0].shares) > 1:",
        EDITS,
    ),
    Mutant(
        "elements are moved out of a store that others share",
        "if has_runs(news) or read_counter(&news.shares) > 1:",
        "if has_runs(news):",
        EDITS,
    ),
    Mutant(
        "a slice with a step of a run with a step keeps the run's",
        "run.step * step if k > 1 else 1, k)",
        "run.step if k > 1 else 1, k)",
        STORES,
    ),
    Mutant(
        "a reversed run begins as if its step were 1",
        "run.first + (n - 1) * run.step, -run.step, n)",
        "run.first + n - 1, -run.step, n)",
        STORES,
    ),
    Mutant(
        "a whole slice with a step is the store itself",
        "if n == size_of(store) and step == 1:",
        "if n == size_of(store):",
        STORES,
    ),
    Mutant(
        "memory is given back before most of it is free",
        "if old.capacity < 64 or n > old.capacity >> 2 or read_counter(&old.shares) > 1:",
        "if old.capacity < 64 or n > old.capacity >> 1 or read_counter(&old.shares) > 1:",
        f"{EDITS} core/test_fast_paths_slots.py",
    ),
    # -- container and selection ---------------------------------------------------------------------------
    Mutant(
        "a slice with a step is exchanged with the other sequence's elements",
        "if step != 1 and unshare(&news) != OK:",
        "if False and unshare(&news) != OK:",
        EDITS,
    ),
    Mutant(
        "a selection is exchanged with the other sequence's elements",
        "            if unshare(&news) != OK:\n",
        "            if False and unshare(&news) != OK:\n",
        EDITS,
    ),
    Mutant(
        "del with a negative step begins at the slice's front",
        "first if step > 0 else first + (n - 1) * step",
        "first",
        STORES,
    ),
    Mutant(
        "remove takes the position that was found before others edited",
        "            if self._store != share.store:\n",
        "            if False:\n",
        EDITS,
    ),
    Mutant(
        "a sequence in use is filled again",
        "            fresh = self._dtype is None\n",
        "            fresh = True\n",
        "sequence pickling",
    ),
    Mutant(
        "a mask that is too long passes where elements are looked up",
        "        if k != n:\n            return LENGTH_DIFFERS",
        "        if k < n:\n            return LENGTH_DIFFERS",
        STORES,
    ),
    Mutant(
        "a mask that is too short passes where elements are removed",
        "if is_mask(selection) and k != n:",
        "if is_mask(selection) and k > n:",
        STORES,
    ),
    Mutant(
        "the position behind the last one passes in a single run",
        "<size_t>position >= <size_t>n:\n                return i\n            into[i] = Slot(first",
        "<size_t>position > <size_t>n:\n                return i\n            into[i] = Slot(first",
        STORES,
    ),
    Mutant(
        "the element right behind the gap is looked up in it",
        "(gap if position >= lo else 0)",
        "(gap if position > lo else 0)",
        STORES,
    ),
    Mutant(
        "marks behind the gap are those before it",
        "found += marks[lo + i]",
        "found += marks[i]",
        STORES,
    ),
    Mutant(
        "negative positions out of range pass",
        "if not -n <= positions[i] < n:",
        "if not positions[i] < n:",
        STORES,
    ),
    Mutant(
        "a range is judged by its last position alone",
        "for end in (key[:1], key[-1:]):",
        "for end in (key[-1:],):",
        f"{STORES} core/test_damaged_offsets.py",
    ),
]
