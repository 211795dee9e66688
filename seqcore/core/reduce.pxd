# Elements reduced along an axis: one result for each.

cimport numpy as cnp
from seqcore.core.store cimport Store

cdef object reduced_elements(Store *store, cnp.dtype dtype, object how, object axis, object initial,
                             object empty, object asked)
