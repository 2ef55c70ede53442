"""Halves of outputs as bytes, for store and wire: numbers of one fixed width, little endian.

A half alone is a random number; only an owner ever has both.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import WireError
from ppodc.kmeans.half import OutputHalf

MAX_MODULUS_BYTES = 1024


def half_width(modulus: int) -> int:
    """Bytes of one value modulo `modulus`."""
    return max(1, ((modulus - 1).bit_length() + 7) // 8)


def half_to_array(half: OutputHalf) -> NDArray[np.uint8]:
    """(values, width) bytes."""
    width = half_width(half.modulus)
    data = b"".join(int(value).to_bytes(width, "little") for value in half.values)
    return np.frombuffer(data, np.uint8).reshape(len(half.values), width)


def half_from_array(modulus: int, array: NDArray[np.uint8]) -> OutputHalf:
    """The half again; WireError for what `half_to_array` does not make."""
    width = half_width(modulus)
    if modulus < 2 or array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width:
        raise WireError("a half of an output does not fit its modulus.")
    data = array.tobytes()
    values = [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]
    if values and max(values) >= modulus:
        raise WireError("a half of an output holds a value beyond its modulus.")
    return OutputHalf(modulus, values)


def modulus_to_bytes(modulus: int) -> bytes:
    """The modulus itself, little endian."""
    return modulus.to_bytes((modulus.bit_length() + 7) // 8, "little")


def modulus_from_bytes(data: bytes) -> int:
    """The modulus again."""
    if not 1 <= len(data) <= MAX_MODULUS_BYTES:
        raise WireError("the modulus of an output has an impossible size.")
    return int.from_bytes(data, "little")
