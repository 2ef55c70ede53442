"""Which records a job starts from, and which stand in for clusters that come out empty.

Rows follow from the public seed, so that both clouds, any number of pairs and a resumed job choose
the same ones: SHA-256 over purpose, seed and place in counter mode, words of 64 bits, those that
would favour small rows passed over. Each start of several has rows of its own; those of the first
are those of a job with one. Who learns what: seed and rows are public; the records are not.
"""

import hashlib
from collections.abc import Iterator

from ppodc.errors import OptionError

MAX_SEED = (1 << 63) - 1


def initial_rows(seed: int, m: int, k: int, start: int = 0) -> list[int]:
    """k distinct rows of 0..m-1 from the public seed, in cluster order."""
    if not 1 <= k <= m:
        raise OptionError(
            f"{k} clusters cannot start from {m} records: use at most as many as rows"
        )
    rows: dict[int, None] = {}
    for row in _rows_below(m, b"initial rows", seed, *_of(start)):
        rows.setdefault(row)
        if len(rows) == k:
            break
    return list(rows)


def reseed_rows(seed: int, iteration: int, m: int, k: int, start: int = 0) -> list[int]:
    """Each cluster's replacement row if `iteration` (from 1) leaves the cluster empty."""
    if m < 1 or iteration < 1:
        raise OptionError("re-seeding needs at least one record, and iterations count from 1")
    return [next(_rows_below(m, b"reseed row", seed, iteration, h, *_of(start))) for h in range(k)]


def fraction(seed: int, number: int, start: int = 0) -> int:
    """u of the choice of record `number` (from 1) by k-means++, times 2^64: 0..2^64-1."""
    return next(_rows_below(1 << 64, b"k-means++", seed, number, *_of(start)))


def _of(start: int) -> tuple[int, ...]:
    """The place of a start: nothing for the first, as in jobs that have one."""
    return (start,) if start else ()


def _rows_below(bound: int, purpose: bytes, seed: int, *where: int) -> Iterator[int]:
    """An endless stream of uniform integers below `bound`, the same on every machine."""
    if not 0 <= seed <= MAX_SEED:
        raise OptionError(f"the seed must be a whole number from 0 to {MAX_SEED}")
    prefix = b"ppodc v1 " + purpose
    prefix += b"".join(number.to_bytes(8, "little") for number in (len(where), seed, *where))
    fair = (1 << 64) // bound * bound  # words from here on would favour small rows
    counter = 0
    while True:
        digest = hashlib.sha256(prefix + counter.to_bytes(8, "little")).digest()
        counter += 1
        word = int.from_bytes(digest[:8], "little")
        if word < fair:
            yield word % bound
