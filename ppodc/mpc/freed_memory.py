"""Memory that a step frees stays with the process, for the next step to take again.

Steps make and drop arrays of about a megabyte all the time. The C library hands such memory back
to the system at once and gets it anew, page by page and filled with zeros, which cost a third of
the time of encrypting records. Told otherwise, it keeps up to `KEPT` bytes at hand: what an
iteration takes at k = 20.

A C library without this setting is left as it is.
"""

import ctypes
from functools import cache

KEPT = 128 << 20
_LARGEST = 16 << 20  # beyond it an array is handed back all the same
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


@cache
def keep_freed() -> bool:
    """Set it once for this process; whether the C library took it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_TRIM_THRESHOLD, KEPT))
