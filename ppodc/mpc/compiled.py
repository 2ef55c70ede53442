"""Machine code for the inner loops: numba with explicit signatures, cached on disk.

Kernels compile when their module is imported for the first time on a machine (about ten seconds
for all of them, announced in the log) and load from the cache afterwards. Inputs are declared
read-only, so that arrays which still belong to a received frame are taken as they are. A cached
kernel follows changes in its own file, not in inlined pieces from other files: after changing
one of those, delete the folders `__pycache__` here.

The cache is in `NUMBA_CACHE_DIR` if that is set, else beside the source, else in the user's folder
for caches. A service may be allowed to write to none of these: then it is in a folder for temporary
files that only this user can enter, since what is loaded from a cache is run.
"""

import logging
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba import types

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger("ppodc")

_SETTING = "NUMBA_CACHE_DIR"
_NO_PLACE = "no locator available"  # numba's words
_announced = False


def _array(kind: Any, dimensions: int, readonly: bool) -> Any:
    return types.Array(kind, dimensions, "C", readonly=readonly)


# What a kernel reads (in) and writes (out), by dtype and dimensions.
in_u1, in_u4 = (_array(kind, 1, True) for kind in (types.uint8, types.uint32))
in_u1_2, in_u2_2 = (_array(kind, 2, True) for kind in (types.uint8, types.uint16))
in_u4_2, in_u4_3 = (_array(types.uint32, d, True) for d in (2, 3))
in_u8, in_u8_2, in_u8_3 = (_array(types.uint64, d, True) for d in (1, 2, 3))
in_i8 = _array(types.int64, 1, True)
out_u1_2, out_u2_2 = (_array(kind, 2, False) for kind in (types.uint8, types.uint16))
out_u4, out_u4_2, out_u4_3 = (_array(types.uint32, d, False) for d in (1, 2, 3))
out_u8, out_u8_2, out_u8_3 = (_array(types.uint64, d, False) for d in (1, 2, 3))
out_i8 = _array(types.int64, 1, False)
out_u1, out_u2 = (_array(kind, 1, False) for kind in (types.uint8, types.uint16))
u64, i64, void = types.uint64, types.int64, types.void


def compiled(*arguments: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a kernel that returns nothing, for exactly these argument types."""

    def compile_now(function: Callable[P, R]) -> Callable[P, R]:
        _announce(function)
        make = partial(numba.njit, void(*arguments), nogil=True)
        try:
            kernel: Callable[P, R] = make(cache=True)(function)
        except RuntimeError as error:
            if _NO_PLACE not in str(error):
                raise
            kernel = make(cache=_move_cache())(function)
        return kernel

    return compile_now


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A piece of a kernel, compiled into each kernel that uses it."""
    piece: Callable[P, R] = numba.njit(inline="always")(function)
    return piece


@cache
def _move_cache() -> bool:
    """Give the cache a place where numba finds none, in this process and those that it starts.

    False if there is none either: then every process compiles for itself.
    """
    try:
        folder = _private_folder()
    except OSError as error:
        log.warning("no place for compiled kernels (%s): %s may name a folder", error, _SETTING)
        return False
    log.info("compiled kernels are kept in %s; %s may name another folder", folder, _SETTING)
    os.environ[_SETTING] = str(folder)
    numba.config.reload_config()  # type: ignore[no-untyped-call]
    return True


def _private_folder() -> Path:
    """A folder for all processes of this user alone; OSError if others can enter it."""
    folder = Path(tempfile.gettempdir()) / f"ppodc-kernels-{os.getuid()}"
    folder.mkdir(0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"others can change {folder}")
    tempfile.TemporaryFile(dir=folder).close()
    return folder


def _announce(function: Callable[..., Any]) -> None:
    """Say once that compiling takes a while, if this kernel has never been compiled here."""
    global _announced
    source = Path(function.__code__.co_filename)
    pattern = f"{source.stem}.{function.__qualname__}-*.nbi"
    moved = os.environ.get(_SETTING)
    found = Path(moved).rglob(pattern) if moved else (source.parent / "__pycache__").glob(pattern)
    if not _announced and not any(found):
        _announced = True
        log.warning(
            "compiling the kernels of the shares suite: once per installation, about ten seconds"
        )
