"""Freed arrays are taken again without new pages."""

import resource

import numpy as np
import pytest

from ppodc.mpc.freed_memory import keep_freed

TIMES, BYTES = 50, 4 << 20


def new_pages() -> int:
    """Pages that the system had to give for arrays which come and go."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(TIMES):
        arrays = [np.ones(BYTES, np.uint8) for _ in range(3)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not keep_freed(), reason="the C library has no mallopt")
def test_what_comes_and_goes_takes_no_new_pages():
    new_pages()  # the first time they are new
    pages = 3 * TIMES * BYTES // resource.getpagesize()
    assert new_pages() < pages / 100
