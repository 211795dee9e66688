"""CPython's cache of what types' attributes are, which would look like a leak.

It keeps the names that it was asked for until others take their places. NumPy and others make a new string
for each question (`accumulate`, where a cumsum is wanted), at addresses by which some fall into one place and
some don't: so memory grows by a string in some rounds, in some processes, for thousands of rounds.
"""

import sys

_clear = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache  # the former from 3.13 on


def clear_type_cache():
    _clear()
