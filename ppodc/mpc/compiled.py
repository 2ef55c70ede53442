"""Machine code for the inner loops: numba with explicit signatures, cached on disk.

Kernels compile when their module is imported for the first time on a machine (about ten seconds
for all of them, announced in the log) and load from the cache afterwards. Inputs are declared
read-only, so that arrays which still belong to a received frame are taken as they are. A cached
kernel follows changes in its own file, not in inlined pieces from other files: after changing
one of those, delete the folders `__pycache__` here.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba import types

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger("ppodc")

_announced = False


def _array(kind: Any, dimensions: int, readonly: bool) -> Any:
    return types.Array(kind, dimensions, "C", readonly=readonly)


# What a kernel reads (in) and writes (out), by dtype and dimensions.
in_u1, in_u4 = (_array(kind, 1, True) for kind in (types.uint8, types.uint32))
in_u4_2, in_u4_3 = (_array(types.uint32, d, True) for d in (2, 3))
in_u8, in_u8_2, in_u8_3 = (_array(types.uint64, d, True) for d in (1, 2, 3))
in_i8 = _array(types.int64, 1, True)
out_u1_2 = _array(types.uint8, 2, False)
out_u4, out_u4_2, out_u4_3 = (_array(types.uint32, d, False) for d in (1, 2, 3))
out_u8, out_u8_2, out_u8_3 = (_array(types.uint64, d, False) for d in (1, 2, 3))
out_i8 = _array(types.int64, 1, False)
u64, i64, void = types.uint64, types.int64, types.void


def compiled(*arguments: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a kernel that returns nothing, for exactly these argument types."""

    def compile_now(function: Callable[P, R]) -> Callable[P, R]:
        _announce(function)
        kernel: Callable[P, R] = numba.njit(void(*arguments), cache=True, nogil=True)(function)
        return kernel

    return compile_now


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A piece of a kernel, compiled into each kernel that uses it."""
    piece: Callable[P, R] = numba.njit(inline="always")(function)
    return piece


def _announce(function: Callable[..., Any]) -> None:
    """Say once that compiling takes a while, if this kernel has never been compiled here."""
    global _announced
    source = Path(function.__code__.co_filename)
    pattern = f"{source.stem}.{function.__qualname__}-*.nbi"
    moved = os.environ.get("NUMBA_CACHE_DIR")
    found = Path(moved).rglob(pattern) if moved else (source.parent / "__pycache__").glob(pattern)
    if not _announced and not any(found):
        _announced = True
        log.warning(
            "compiling the kernels of the shares suite: once per machine, about ten seconds"
        )
