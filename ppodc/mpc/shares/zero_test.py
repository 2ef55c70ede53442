"""Whether shared numbers are all zero, in few rounds: digits that differ are counted, not joined.

x1 + x2 = 0 modulo 2^w if x1 and -x2 have the same digits. A look-up of their difference gives
additive shares of [the digits differ]; added up, they are the number of those that do, and a
look-up of that number gives [there is none].

Who learns what: nothing. Rounds: 2 for each of two look-ups, however many digits. Bytes per digit
of 8 bits: 2 KB, one way. Supplies: see `needs`.
"""

from collections.abc import Generator

import numpy as np

from ppodc.mpc.session import Session
from ppodc.mpc.shares import look_up
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.supplies import Needs

_DIGIT_BITS = 8


def needs(count: int, bits: int) -> Needs:
    """Supplies for `count` numbers of `bits` bits."""
    digits = count * _digits(bits)
    return look_up.needs(digits, _DIGIT_BITS) + look_up.needs(1, digits.bit_length())


def all_zero(session: Session, values: AdditiveShare, bits: int) -> int:
    """This cloud's share of the bit [all numbers are 0 modulo 2^bits rounded up to bytes]."""
    return look_up.drained(all_zero_rounds(session, values, bits))


def all_zero_rounds(
    session: Session, values: AdditiveShare, bits: int
) -> Generator[None, None, int]:
    """`all_zero` with a stop in each of its waits."""
    own = values if session.role == 1 else -values
    data = np.ascontiguousarray(own.limbs, "<u8").view(np.uint8)
    digits = data[:, : _digits(bits)].reshape(-1).astype(U64)
    # the digit of x1 less that of -x2
    indices = digits if session.role == 1 else -digits
    rounds = look_up.look_up_rounds(session, indices, _DIGIT_BITS, _is_not_zero, 1)
    differ = yield from look_up.in_waits(rounds)
    total = differ.limbs.sum(axis=0, dtype=U64)
    rounds = look_up.look_up_rounds(session, total, len(digits).bit_length(), _is_zero, 1)
    none = yield from look_up.in_waits(rounds)
    return int(none.limbs[0, 0]) & 1


def _digits(bits: int) -> int:
    return -(-bits // _DIGIT_BITS)


def _is_zero(first: int, count: int) -> U64Array:
    table: U64Array = (np.arange(first, first + count) == 0).astype(U64)[:, None]
    return table


def _is_not_zero(first: int, count: int) -> U64Array:
    return U64(1) - _is_zero(first, count)
