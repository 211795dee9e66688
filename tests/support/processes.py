"""What the tests that start processes of their own give these."""

import sysconfig

# Finds what is written outside its memory sooner than Python's own allocator, which is all that builds
# without a GIL have.
PLAIN_MALLOC = {} if sysconfig.get_config_var("Py_GIL_DISABLED") else {"PYTHONMALLOC": "malloc"}
