"""Fields as an owner uploads them: columns of small numbers, whatever the field holds.

*exact*: 40 bits of SHA-256 of the value, in two columns of 20 bits; two different values agree with
probability 2^-40. A missing value gets random bits, so that it agrees with nothing.
*numeric*: the whole number and a bit that says whether there is one.
*edit*: codes of the characters (`strings`), filled up to `longest` + max with "no character", and a
bit that says whether the value is missing.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.rules import Field
from ppodc.linkage.strings import NONE, codes

DIGEST_BITS = 40
HALF_BITS = DIGEST_BITS // 2  # an uploaded number has at most 20 bits


def width(field: Field, longest: int) -> int:
    """Columns that a field takes; `longest` characters for edit."""
    if field.how == "edit":
        return longest + field.most + 1
    return 2


def encode_field(
    field: Field, values: Sequence[Any], longest: int, *, digits: bool = False
) -> NDArray[np.int64]:
    """The columns of a field: (rows, width). None is a missing value; `digits`: as in `codes`."""
    encode: Callable[[Field, Any, int], list[int]] = partial(_edit, digits=digits)
    if field.how != "edit":
        encode = _exact if field.how == "exact" else _numeric
    rows = []
    for number, value in enumerate(values, 1):
        try:
            rows.append(encode(field, value, longest))
        except InputError as error:
            raise InputError(f"row {number}, column {field.column!r}: {error}") from None
    return np.array(rows, np.int64).reshape(len(rows), width(field, longest))


def _exact(field: Field, value: Any, longest: int) -> list[int]:
    if value is None:
        digest = secrets.randbits(DIGEST_BITS)
    else:
        hashed = hashlib.sha256(str(value).encode()).digest()
        digest = int.from_bytes(hashed[:5], "little")
    return [digest & ((1 << HALF_BITS) - 1), digest >> HALF_BITS]


def _numeric(field: Field, value: Any, longest: int) -> list[int]:
    if value is None:
        return [0, 0]
    if not isinstance(value, int | np.integer) or not 0 <= value < 1 << HALF_BITS:
        raise InputError(f"a number must be whole and from 0 to {(1 << HALF_BITS) - 1}.")
    return [int(value), 1]


def _edit(field: Field, value: Any, longest: int, *, digits: bool) -> list[int]:
    if value is not None and not isinstance(value, str):
        raise InputError("a text is needed.")
    text = codes(value or "", digits=digits)
    if len(text) > longest:
        raise InputError(f"the text has {len(text)} characters, more than {longest}.")
    return [*text, *[NONE] * (longest + field.most - len(text)), int(value is None)]
