"""Reports of flipped bits: PrivBV and DPBV, LDPseg and its variants, on one engine.

Each attribute of a record becomes a string of s bits (`bit_codes`), each bit is flipped by itself
(`flips`), and the d s bits are the report. PrivBV with t of at least half the range is threshold
bits at random places, LDPseg threshold bits at equal steps.

The sources claim a budget for one value or for the whole table; what one record really gives away
is d times b D (`guarantee`). At a fixed budget of a record the error of an estimate grows with the
number of bits, so `epsilon` here is shared out evenly: b = epsilon / (d s). Cost a record: d s
words of randomness, d s / 8 bytes.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.local_dp.published.bit_codes import BitCode, bit_vector, random_centres, thermometer
from ppodc.local_dp.published.flips import Flips, MoueVariant
from ppodc.local_dp.published.packed_bits import Packed, check_padding, words_for
from ppodc.local_dp.report_streams import RecordStreams
from ppodc.privacy.chances import check_epsilon
from ppodc.privacy.concentrated import DELTA, tight_epsilon
from ppodc.privacy.guarantee import Guarantee, PrivacyReport
from ppodc.records.upload_form import RowsPart

Rounding = Literal["floor", "stochastic"]


@dataclass(frozen=True, slots=True, eq=False)
class BitReports:
    """d attributes of one code and one rule of flipping, and what its source claims for it."""

    code: BitCode
    flips: Flips
    attributes: int
    rounding: Rounding = "floor"
    levels_of: int = 0  # with stochastic rounding: ub of the values, which become levels first
    claimed: Guarantee | None = None
    claimed_for: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if len(self.flips) != self.code.bits or self.attributes < 1:
            raise InputError("bit reports need attributes, and a rule of flipping for every bit")

    def guarantee(self) -> PrivacyReport:
        """d times the largest ratio of two values; at delta the tight value where b is one."""
        one = self.code.epsilon(self.flips)
        b, at_delta = self.flips.bit_epsilon, None
        if b is not None:
            differing = self.code.differing() * self.attributes
            at_delta = Guarantee(tight_epsilon(b, differing, DELTA), DELTA)
        return PrivacyReport(
            Guarantee(one * self.attributes),
            (one,) * self.attributes,
            guaranteed_at_delta=at_delta,
            claimed=self.claimed,
            source=self.source,
            claimed_for=self.claimed_for,
        )

    @property
    def bits(self) -> int:
        """Of a whole report."""
        return self.attributes * self.code.bits

    @property
    def part(self) -> RowsPart:
        """The form of reports."""
        return RowsPart(np.uint64, self.attributes * words_for(self.code.bits), (1 << 64) - 1)

    def check(self, reports: NDArray[Any]) -> None:
        """Refuse bits beyond the last of an attribute."""
        check_padding(reports.reshape(-1, words_for(self.code.bits)), self.code.bits)

    def encode(self, records: NDArray[Any]) -> Packed:
        """The strings without any flip, as if they were reports: for comparisons only."""
        never = np.zeros((1, self.bits), np.uint32)
        unflipped = np.full(self.code.bits, 1, np.uint64), np.zeros(self.code.bits, np.uint64)
        words = np.broadcast_to(never, (len(records), self.bits))
        return self._kernel(self.code.rows(records), np.ascontiguousarray(words), *unflipped)

    def perturb(self, records: NDArray[Any], streams: RecordStreams) -> Packed:
        """At the owner: (records, attributes * words), every attribute from a new word on."""
        if records.shape != (len(streams), self.attributes):
            raise InputError(f"records need {self.attributes} attributes")
        stay, rise = np.array(self.flips.stay, np.uint64), np.array(self.flips.rise, np.uint64)
        extra = self.attributes if self.rounding == "stochastic" else 0
        reports = np.empty((len(records), self.part.columns), np.uint64)
        for rows, words in streams.batches(self.bits + extra):
            values = records[rows]
            if extra:
                values = self._levels(values, words[:, self.bits :])
            flipping = np.ascontiguousarray(words[:, : self.bits])
            reports[rows] = self._kernel(self.code.rows(values), flipping, stay, rise)
        return reports

    def _levels(self, values: NDArray[Any], words: NDArray[np.uint32]) -> NDArray[np.int64]:
        """x n / ub, up with its fraction as probability: word / 2^32 < remainder / ub."""
        whole, rest = np.divmod(values.astype(np.int64) * self.code.ub, self.levels_of)
        return np.asarray(whole + (words.astype(np.int64) * self.levels_of < rest << 32))

    def _kernel(
        self,
        rows: NDArray[np.int64],
        words: NDArray[np.uint32],
        stay: NDArray[np.uint64],
        rise: NDArray[np.uint64],
    ) -> Packed:
        from ppodc.local_dp.published.flip_kernel import flip_and_pack

        out = np.zeros((len(rows), self.part.columns), np.uint64)
        flip_and_pack(np.ascontiguousarray(rows), self.code.table, words, stay, rise, out)
        return out


# ---------------------------------------------------------------- the published systems


def _privbv_claim(b: float, bits: int) -> float:
    """(e^b / (e^b + 1))^s: the bound on a single output that the sources call delta."""
    return math.exp(bits * (b - math.log1p(math.exp(b))))


def privbv_as_published(
    attributes: int, ub: int, *, b: float, bits: int, t: int, random: SecureRandom
) -> BitReports:
    """PrivBV/DPBV: s bits a value, each with randomized response of b."""
    code = bit_vector(ub, random_centres(ub, t, bits, random), t)
    return BitReports(
        code,
        Flips.symmetric(b, bits),
        attributes,
        claimed=Guarantee(b, _privbv_claim(b, bits)),
        claimed_for="one value",
        source="PrivBV",
    )


def half_range(ub: int) -> int:
    """The t with which thresholds tell all of a range apart."""
    return max(1, (ub + 1) // 2)


def privbv(
    attributes: int, ub: int, *, epsilon: float, bits: int, random: SecureRandom
) -> BitReports:
    """PrivBV that keeps `epsilon` for a record; t is half the range."""
    b, t = check_epsilon(epsilon) / (attributes * bits), half_range(ub)
    code = bit_vector(ub, random_centres(ub, t, bits, random), t)
    return BitReports(code, Flips.symmetric(b, bits), attributes)


def ldpseg_as_published(
    attributes: int,
    code: BitCode,
    *,
    rows: int,
    epsilon: float = 1.0,
    a: float = 5.0,
    flips: Literal["moue", "uer"] = "moue",
    moue_variant: MoueVariant = "text",
) -> BitReports:
    """LDPseg: the strings of `rows` values merged, r n bits called the sensitivity."""
    sensitivity = rows * code.bits
    if flips == "moue":
        rule = Flips.moue(a, epsilon, sensitivity, code.bits, moue_variant)
    else:
        rule = Flips.uer(a, epsilon, sensitivity, code.bits)
    return BitReports(
        code,
        rule,
        attributes,
        claimed=Guarantee(epsilon),
        claimed_for="the whole table",
        source="LDPseg",
    )


def ldpseg(attributes: int, ub: int, *, epsilon: float, bits: int) -> BitReports:
    """LDPseg that keeps `epsilon` for a record: symmetric flips, unbiased rounding."""
    b: Fraction = check_epsilon(epsilon) / (attributes * bits)
    return BitReports(
        thermometer(bits, bits),
        Flips.symmetric(b, bits),
        attributes,
        rounding="stochastic",
        levels_of=ub,
    )
