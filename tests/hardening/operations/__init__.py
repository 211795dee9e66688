"""The operations whose allocations are made to fail, in groups: see failed_allocations.py."""

from operations import container, exchange, values  # noqa: F401
from operations.calls import OnThreads
from operations.operands import GROUPS, WATCHED, fresh

__all__ = ["GROUPS", "WATCHED", "OnThreads", "fresh"]

# Left out, for a failed allocation ends the process there (CPython 3.11, NumPy 2.4, protobuf 7, Cython 3.3):
#   np.errstate, on the way of Python floats        CPython's PyContextVar_Set
#   hashes of dtypes, on that of foreign bytes      NumPy's PyArray_DescrHash
#   and fixed-width strings
#   pickle of dtypes: __reduce_ex__ is in           NumPy's arraydescr_reduce
#   to_proto and from_proto                         protobuf's PyUpb_Message_New
#   for name, value in some_dict.items()            CPython's dictiter_new
# or leaks or waits for ever in others:
#   hold and let_go by ctypes                       whose result is lost where it can't become an int
#   Thread.start()                                  CPython waits for a thread that had no memory to begin
#   ThreadPoolExecutor                              as do its futures for a worker that had none
# Where a function shares a variable with a comprehension inside it, CPython 3.11 loses the arguments if it
# has no memory for that. So functions for notebooks which get tensors have none.
# Padding is loose, for its arguments are read in Python: CPython 3.11 loses a block where it has no memory
# for a list display or the frame of a call.
