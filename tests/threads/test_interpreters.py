"""Other interpreters of one process: an import there works, or is an ImportError, and the first goes on."""

import importlib

import pytest
from support.processes import output_of

SCRIPT = """
import sys
try:
    import _interpreters as interpreters
    create = lambda: interpreters.create("isolated" if sys.argv[2] == "own GIL" else "legacy")
    run = lambda i: interpreters.exec(i, code)
except ImportError:
    import _xxsubinterpreters as interpreters
    create = lambda: interpreters.create(isolated=sys.argv[2] == "own GIL")
    run = lambda i: interpreters.run_string(i, code)

code = '''
import sys, warnings
warnings.simplefilter("ignore")     # of NumPy
sys.path[:] = %r
try:
    import numpy as np, seqcore as sq
    assert sq.split_to_sequence(np.arange(4.0)).reduce(np.add).tolist() == [0, 1, 2, 3]
    for options in {"chunksize": 1}, {}:
        assert len(sq.sequence_map(np.copy, [[1]] * 9, max_workers=2, **options)) == 9
except ImportError:
    pass
''' % sys.path

if sys.argv[1] == "first":
    import numpy as np, seqcore as sq
    seq = sq.split_to_sequence(np.arange(4.0))
for _ in range(3):
    other = create()
    failed = run(other)
    assert failed is None, failed
    interpreters.destroy(other)
if sys.argv[1] == "first":
    assert seq[[1, 0]].reduce(np.add).tolist() == [1, 0]
print("ended")
"""


@pytest.mark.slow
@pytest.mark.parametrize("gil", ["own GIL", "shared GIL"])  # as far as the version of Python has both
@pytest.mark.parametrize("where", ["first", "elsewhere"])
@pytest.mark.mostly_at_night(3)
def test_imports_in_other_interpreters(where, gil):
    if not any(map(importlib.util.find_spec, ("_interpreters", "_xxsubinterpreters"))):
        pytest.skip("this Python has no module for them")
    assert output_of("-c", SCRIPT, where, gil) == "ended\n"
