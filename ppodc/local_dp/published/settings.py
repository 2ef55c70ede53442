"""The settings of the published systems, as their sources give them: for comparison only.

A spec names one by `as_published`. What its source calls epsilon is for one bit (PrivBV), for the
whole table (LDPseg) or for one attribute (LDPK-modes); what one record really spends follows from
the mechanism and stands beside it wherever it is told, and whoever agrees must type it out.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import SpecError
from ppodc.local_dp.categories import AttributeResponse
from ppodc.local_dp.mechanism import EachAttribute, FlippedBits, Mechanism, MechanismName
from ppodc.local_dp.published.bit_codes import MAX_BITS, thermometer
from ppodc.local_dp.published.bit_reports import ldpseg_as_published, privbv_as_published
from ppodc.privacy.chances import check_epsilon
from ppodc.toml_document import check_keys, check_whole, double

WHERE = "job.as_published"
MAX_REPORT_BITS = 1 << 18
Flipping = Literal["moue", "uer"]


@dataclass(frozen=True, slots=True)
class Columns:
    """The records' public facts for a setting: columns of 0..ub, categories of each, their number.

    `seed` is the public one of thresholds, `rows` how many records there will be.
    """

    count: int
    ub: int
    sizes: tuple[int, ...]
    rows: int
    seed: int

    def check_bits(self, bits: int) -> None:
        """Refuse reports of more bits than anybody should send for one record."""
        if self.count * bits > MAX_REPORT_BITS:
            raise SpecError(
                f"{self.count} columns of {bits} bits are more than the {MAX_REPORT_BITS} bits of "
                "the longest report; use fewer bits or columns"
            )


@dataclass(frozen=True, slots=True)
class PrivBVSetting:
    """s bits a value, each flipped with epsilon b; thresholds reach t, in parts of the range."""

    b: float
    s: int
    t: float = 0.5

    def __post_init__(self) -> None:
        _check_positive(self, "b")
        check_whole(self.s, f"{WHERE}.s", 1, MAX_BITS)
        object.__setattr__(self, "t", double(self.t, f"{WHERE}.t"))
        if not 0.5 <= self.t <= 10:
            raise SpecError(f"{WHERE}.t must be from 0.5 to 10: centres need half the range")

    def build(self, columns: Columns) -> Mechanism:
        columns.check_bits(self.s)
        random, t = SecureRandom.public(columns.seed), self.reach(columns.ub)
        made = privbv_as_published(
            columns.count, columns.ub, b=self.b, bits=self.s, t=t, random=random
        )
        return FlippedBits(made)

    def reach(self, ub: int) -> int:
        """t of values 0..ub."""
        return max(1, math.ceil(self.t * ub))


@dataclass(frozen=True, slots=True)
class LDPsegSetting:
    """s segments a value, flipped by MOUE or UER with a; epsilon for all values of a column."""

    epsilon: float
    s: int = 10
    a: float = 5.0
    flips: Flipping = "moue"

    def __post_init__(self) -> None:
        _check_positive(self, "epsilon", "a")
        check_whole(self.s, f"{WHERE}.s", 1, MAX_BITS)
        if self.flips not in get_args(Flipping):
            raise SpecError(f"{WHERE}.flips must be one of {', '.join(get_args(Flipping))}")

    def build(self, columns: Columns) -> Mechanism:
        if columns.rows < 1:
            raise SpecError("ldpseg as published needs job.expected_rows: it merges their strings")
        columns.check_bits(self.s)
        code = thermometer(columns.ub, self.s)
        made = ldpseg_as_published(
            columns.count, code, rows=columns.rows, epsilon=self.epsilon, a=self.a, flips=self.flips
        )
        return FlippedBits(made)


@dataclass(frozen=True, slots=True)
class LDPKModesSetting:
    """epsilon for every attribute."""

    epsilon: float

    def __post_init__(self) -> None:
        _check_positive(self, "epsilon")

    def build(self, columns: Columns) -> Mechanism:
        return EachAttribute(AttributeResponse.as_published(columns.sizes, self.epsilon))


Setting = PrivBVSetting | LDPsegSetting | LDPKModesSetting
_SETTINGS: dict[MechanismName, tuple[type[Setting], tuple[str, ...], tuple[str, ...]]] = {
    "privbv": (PrivBVSetting, ("b", "s"), ("t",)),
    "ldpseg": (LDPsegSetting, ("epsilon",), ("s", "a", "flips")),
    "ldpk-modes": (LDPKModesSetting, ("epsilon",), ()),
}


def setting_of(mechanism: MechanismName, table: Any) -> Setting:
    """The setting in a spec's `as_published`; InputError for a mechanism that nobody published."""
    if mechanism not in _SETTINGS:
        raise SpecError(f"{WHERE} is for {', '.join(_SETTINGS)}; give job.epsilon to {mechanism}")
    make, required, optional = _SETTINGS[mechanism]
    check_keys(table, WHERE, required=required, optional=optional)
    return make(**table)


def fits(setting: Setting, mechanism: MechanismName) -> bool:
    """Whether this is a setting of this mechanism."""
    return mechanism in _SETTINGS and isinstance(setting, _SETTINGS[mechanism][0])


def to_dict(setting: Setting) -> dict[str, Any]:
    """The table that the spec's digest covers."""
    return asdict(setting)


def _check_positive(setting: Setting, *names: str) -> None:
    for name in names:
        exact = check_epsilon(getattr(setting, name), f"{WHERE}.{name}")
        object.__setattr__(setting, name, float(exact))
