# Elements of different extents side by side in one array.

cimport numpy as cnp
from seqcore.core.store cimport Store

cdef object padded(Store *store, cnp.dtype own, object padding_value, object side, object shape,
                   object multiple_of, object truncate, object asked, object return_mask, object out)
