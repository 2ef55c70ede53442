"""The collector's estimates from flipped bits: values, distances' constants, centres.

With p and q the chances of a kept and a flipped bit, C = 1/(p - q) and mu = ub + 2t, bit vectors of
s bits have E[d_H] = 2 s (|x - y|/mu)(p - q)^2 + 2 s p q for |x - y| <= 2t, hence

    d^ = mu C^2 / (2 s) d_H - mu p q C^2,          Var(d_H) = s v, v = 2 p q (1 - 2 p q).

Thermometers: sum_j (bit_j - Q_j) / (P_j - Q_j) estimates the number of ones without bias; the
published decoder takes the bits as they come.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import SpecError
from ppodc.local_dp.published.bit_reports import BitReports
from ppodc.local_dp.published.flips import Flips
from ppodc.local_dp.published.packed_bits import Packed, unpack, words_for


@dataclass(frozen=True, slots=True)
class DistanceScale:
    """d^ = slope d_H - offset for one attribute; `noise` is the deviation that flips cause."""

    slope: float
    offset: float
    noise: float
    bits: int
    mu: float
    t: float

    @classmethod
    def of(cls, flips: Flips | None, bits: int, ub: float, t: float) -> "DistanceScale":
        """The scale of bit vectors; without flips, that of the plain encoding."""
        mu, p, q = ub + 2 * t, 1.0, 0.0
        if flips is not None:
            if flips.bit_epsilon is None:
                raise SpecError("distances need bits that are flipped alike in both directions")
            kept, raised = flips.chances()
            p, q = float(kept[0]), float(raised[0])
        square = 1 / (p - q) ** 2
        slope = mu * square / (2 * bits)
        spread = 2 * p * q * (1 - 2 * p * q)
        return cls(slope, mu * p * q * square, slope * math.sqrt(bits * spread), bits, mu, t)

    def distances(self, hamming: NDArray[Any] | float) -> NDArray[np.float64]:
        """d^; may be negative."""
        return np.asarray(self.slope * np.asarray(hamming, np.float64) - self.offset)

    def hamming(self, distance: float) -> float:
        """The Hamming distance that a distance is expected to give: thresholds of DBSCAN."""
        return (distance + self.offset) / self.slope

    @property
    def bias_of_square(self) -> float:
        """The noise term of the expected square of d^ (correction 1)."""
        return self.noise**2

    def saturation(self, sigmas: float) -> float:
        """T = 2t - 3 or 4 sigma: up to here an entry of a distance matrix can be believed.

        Pairs farther than 2t scatter around 2t by the flips and by how many of the r_i cover one
        of the two: binomial with chance 4t/mu. One far pair that is believed by mistake spoils all
        sums that pass through it: with some thousand pairs take 4 sigma.
        """
        covered = min(1.0, 4 * self.t / self.mu)
        scatter = (self.mu / (2 * self.bits)) ** 2 * self.bits * covered * (1 - covered)
        return 2 * self.t - sigmas * math.sqrt(self.noise**2 + scatter)


def attribute_bits(reports: Packed, mechanism: BitReports) -> NDArray[np.uint8]:
    """(records, attributes, bits)."""
    per = words_for(mechanism.code.bits)
    flat = unpack(reports.reshape(-1, per), mechanism.code.bits)
    return flat.reshape(len(reports), mechanism.attributes, mechanism.code.bits)


def ones_estimates(reports: Packed, mechanism: BitReports) -> NDArray[np.float64]:
    """The unbiased number of ones of each value, (records, attributes)."""
    kept, raised = mechanism.flips.chances()
    weights = 1.0 / (kept - raised)
    bits = attribute_bits(reports, mechanism)
    return np.asarray(bits @ weights - float((raised * weights).sum()))


def decoded(
    reports: Packed, mechanism: BitReports, values: NDArray[np.float64], *, debias: bool
) -> NDArray[np.float64]:
    """Values of the bits summed up: as published, or with every bit debiased first."""
    bits = attribute_bits(reports, mechanism)
    if not debias:
        return np.asarray(bits @ values)
    kept, raised = mechanism.flips.chances()
    weights = values / (kept - raised)
    return np.asarray(bits @ weights - float((raised * weights).sum()))


def bit_shares(
    counts: NDArray[Any], sizes: NDArray[Any], mechanism: BitReports
) -> NDArray[np.float64]:
    """Debiased shares of ones, (clusters, attributes, bits), of summed bits and cluster sizes."""
    kept, raised = mechanism.flips.chances()
    shape = (len(counts), mechanism.attributes, mechanism.code.bits)
    means = counts.reshape(shape) / np.maximum(1, sizes)[:, None, None]
    return np.asarray((means - raised) / (kept - raised))


def centres_of(shares: NDArray[np.float64], mechanism: BitReports) -> NDArray[np.float64]:
    """Centres in 0..ub by least squares: the mean row of the table that gives these shares.

    A cluster's shares are the average of its members' strings. With threshold bits each share says
    how many members lie on one side of a threshold, and the sum of (share) * (gap between
    thresholds) is the mean value. `shares` has (clusters, attributes, bits).
    """
    table, breaks = mechanism.code.table, mechanism.code.breaks
    edges = np.concatenate([[0], breaks, [mechanism.code.ub + 1]])
    middles = (edges[:-1] + edges[1:] - 1) / 2
    rising = table[-1] > table[0]
    falling = table[-1] < table[0]
    if bool((rising | falling).sum() == 0):
        raise SpecError("these bits do not tell where a centre lies: use t of half the range")
    place = np.array([_threshold(table[:, j], breaks) for j in range(mechanism.code.bits)])
    used = np.flatnonzero(rising | falling)
    order = used[np.argsort(place[used], kind="stable")]
    above = np.where(rising[order], shares[..., order], 1.0 - shares[..., order])
    # The mean is the integral of the share above x; each threshold stands for the stretch between
    # the middles to its neighbours.
    at = place[order]
    cuts = np.concatenate([[middles[0]], (at[1:] + at[:-1]) / 2, [middles[-1]]])
    return np.asarray(middles[0] + above @ np.diff(cuts))


def _threshold(column: NDArray[np.uint8], breaks: NDArray[np.int64]) -> float:
    """The last place where the bit of this column changes."""
    changes = np.flatnonzero(np.diff(column.astype(np.int8)))
    return float(breaks[changes[-1]]) if len(changes) else 0.0
