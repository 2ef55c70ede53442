"""Figures of the chapter: cost formulas (Tables 5.1, 5.2) and times (Table 5.3).

w1 and w2 are the bit lengths of a distance and of the stop test, K the key's bits. The formulas
count decryptions, inversions and r^n as exponentiations; so does `ours` where it compares.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ppodc.bench.document import Figures, Table, table_of


@dataclass(frozen=True, slots=True)
class StageCost:
    """Costs of one stage of the published protocol."""

    exponentiations: int | None
    multiplications: int
    bits: int


def stage1(m: int, l: int, key_bits: int) -> StageCost:
    """Taking in m records, once."""
    return StageCost(None, 5 * m * l, 4 * m * l * key_bits)


def stage2(m: int, l: int, k: int, w1: int, key_bits: int) -> StageCost:
    """Assigning m records, per iteration."""
    return StageCost(
        m * (k * (11 * l + 13 * w1 + 10) - 10 * w1 - 2),
        m * (k * (23 * l + 16 * w1 + 1) - 16 * w1 - 3) - k * (l + 1),
        (2 * m * (6 * l * k + 5 * w1 * k - 3 * (w1 + 1)) + 20 * k) * key_bits,
    )


def stage3(l: int, k: int, w2: int, key_bits: int) -> StageCost:
    """The stop test, per iteration."""
    return StageCost(
        k * (16 * l + 15) + 16 * w2 + 1,
        k * (32 * l + 30) + 17 * w2 - 1,
        (3 * k * k + 9 * k * l + 5 * w2 + 3 * k + 3) * 2 * key_bits,
    )


SHAPE = {"l": 10, "k": 4}  # of all numbers below, where they name no other

# Milliseconds per invocation at 1024 bits, m = 6000, one pair of servers
TABLE_5_3 = {
    "SMP": {"online+offline": 59, "online": 23, "pipelined": 11},
    "SSED_OP": {"online+offline": 1186, "online": 356, "pipelined": 177},
    "SBD": {"online+offline": 3372, "online": 1333, "pipelined": 585},
    "SMIN_k": {"online+offline": 33486, "online": 16021, "pipelined": 11897},
}


def table_5_3(name: str, mode: str, l: int, k: int) -> int | None:
    """A number of the table, for its shape only."""
    return TABLE_5_3.get(name, {}).get(mode) if {"l": l, "k": k} == SHAPE else None


# Minutes for one iteration, where the text states a number; 1024 bits
ITERATION_MINUTES = (
    {"m": 10_000, "l": 10, "k": 4, "pairs": 8, "mode": "online+offline", "minutes": 1190},
    {"m": 10_000, "l": 10, "k": 4, "pairs": 8, "mode": "pipelined", "minutes": 337},
    {"m": 10_000, "l": 10, "k": 4, "pairs": 1, "mode": "pipelined", "minutes": 2676},
)
# Of these 337 minutes, what a server of each cloud computed
BUSY_MINUTES = {"C1": 293, "C2": 183}
# Part of an iteration that SBD and SMIN_k take, by k; m = 6000, l = 10, 8 pairs, pipelined
COMPARING = {2: 0.85, 8: 0.95}


def minutes_table(title: str, minutes: Iterable[Figures]) -> Table:
    """Some of `ITERATION_MINUTES`."""
    columns = "m | l | k | pairs | mode | minutes"
    return table_of(title, columns, "{m:,} | {l} | {k} | {pairs} | {mode} | {minutes:,}", minutes)
