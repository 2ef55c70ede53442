"""Fields as an owner uploads them: columns of small numbers, whatever the field holds.

The *size* of a field follows from its column: the most characters of a text within an edit
distance, the bits of any other value.

*exact*: a bit that says whether the value is missing, then those of its code (`exact_codes`), cut
into columns of at most 20 bits.
*numeric*: the whole number and a bit that says whether there is one.
*edit*: codes of the characters (`strings`), filled up to their most + max with "no character", and
a bit that says whether the value is missing.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.rules import Field
from ppodc.linkage.strings import NONE, codes

MOST_BITS = 20  # of an uploaded number


def width(field: Field, size: int) -> int:
    """Columns that a field takes."""
    if field.how == "edit":
        return size + field.most + 1
    return -(-(size + 1) // MOST_BITS) if field.how == "exact" else 2


def column_bits(size: int) -> int:
    """Bits in each column of an exact field: they are shared out evenly."""
    return -(-(size + 1) // -(-(size + 1) // MOST_BITS))


def encode_field(
    field: Field, values: Sequence[Any], size: int, *, digits: bool = False
) -> NDArray[np.int64]:
    """The columns of a field: (rows, width).

    Values are codes or whole numbers of `size` bits, texts of at most `size` characters (`digits`:
    as in `codes`), or None where one is missing.
    """
    encode: Callable[[Field, Any, int], list[int]] = partial(_edit, digits=digits)
    if field.how != "edit":
        encode = _exact if field.how == "exact" else _numeric
    rows = []
    for number, value in enumerate(values, 1):
        try:
            rows.append(encode(field, value, size))
        except InputError as error:
            raise InputError(f"row {number}, column {field.column!r}: {error}") from None
    return np.array(rows, np.int64).reshape(len(rows), width(field, size))


def _exact(field: Field, value: Any, bits: int) -> list[int]:
    word = 1 if value is None else _number(value, bits) << 1
    each = column_bits(bits)
    return [word >> each * place & ((1 << each) - 1) for place in range(width(field, bits))]


def _numeric(field: Field, value: Any, bits: int) -> list[int]:
    return [0, 0] if value is None else [_number(value, bits), 1]


def _number(value: Any, bits: int) -> int:
    if not isinstance(value, int | np.integer) or not 0 <= value < 1 << bits:
        raise InputError(f"a number must be whole and from 0 to {(1 << bits) - 1}.")
    return int(value)


def _edit(field: Field, value: Any, longest: int, *, digits: bool) -> list[int]:
    if value is not None and not isinstance(value, str):
        raise InputError("a text is needed.")
    text = codes(value or "", digits=digits)
    if len(text) > longest:
        raise InputError(f"the text has {len(text)} characters, more than {longest}.")
    return [*text, *[NONE] * (longest + field.most - len(text)), int(value is None)]
