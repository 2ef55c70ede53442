"""k-means with noise in the two clouds: the plaintext reference that the protocol must equal.

Every iteration opens noisy sums and counts to both clouds, and only these; each cloud has added its
own discrete Gaussian noise to its own share before. Centres are public from then on.

*Proof.* Neighbours differ in one record replaced (row numbers are public). A record within the
radius r of its nearest public centre c_h adds its residual t - c_h, of length at most r, to the
sums of h and 1 to its count; a record farther away adds nothing. One record replaced moves the sums
of one cluster by at most 2r and no count, or those of two clusters by r each and two counts by 1,
or less. With variances s of a sum and c of a count the iteration keeps rho-concentrated privacy,
rho = max(2 r^2/s, r^2/s + 1/c); s = 2 r^2/rho and c = 2/rho make both terms rho. T iterations, each
chosen after seeing the ones before, keep T rho, which gives (epsilon, delta)
(`budget.concentrated_rho`). Starting points come from the public seed, merging sees only released
values. Each cloud's noise alone has these variances, so one cloud, also together with owners, faces
a full guarantee; what is released has twice the variance.

*Uneven clusters.* Points spread over the whole domain do not split clusters that lie close
together. So between iterations a centre that holds next to nobody moves beside the heaviest one
(`relocated`), by released values and the public seed only, which costs no privacy.

All of it is in whole numbers in 0..ub: variances are rational and rounded up, centres are rounded
to whole encoded units, so that the protocol on shares computes the same values to the last bit.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.ldp.budget import concentrated_rho
from ppodc.ldp.discrete_noise import gaussian_noise
from ppodc.ldp.spread_points import spread_points
from ppodc.ldp.weighted_kmeans import squared_distances, weighted_kmeans

CENTRES_EACH = 3  # K = 3 k
ITERATIONS = 3
HEAVY = 8

Integers = NDArray[np.int64]
Noise = Callable[[tuple[int, ...], Fraction], Integers]  # both clouds' noise, added up


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """The public numbers of a job with noise: what all parties compute alike from the spec."""

    k: int
    columns: int
    ub: int
    epsilon: float
    delta: float
    iterations: int = ITERATIONS
    centres: int = 0  # K; 0: 3 k
    seed: int = 0

    def __post_init__(self) -> None:
        if self.k < 1 or self.columns < 1 or self.iterations < 1:
            raise InputError("noise in the two clouds needs k, columns and iterations from 1")
        if not self.centres:
            object.__setattr__(self, "centres", CENTRES_EACH * self.k)
        if self.centres < self.k:
            raise InputError("there must be at least as many centres as clusters")
        concentrated_rho(self.epsilon, self.delta)

    @property
    def radius(self) -> int:
        """r = ub sqrt(l) K^(-1/l) / 2, a whole number from 1."""
        share = math.pow(self.centres, -1 / self.columns)
        wanted = 0.5 * self.ub * math.sqrt(self.columns) * share
        return max(1, math.ceil(wanted))

    @property
    def rho(self) -> Fraction:
        """Of one iteration, rounded down to a multiple of 2^-40 of itself."""
        return _rounded(concentrated_rho(self.epsilon, self.delta) / self.iterations, up=False)

    @property
    def sum_variance(self) -> Fraction:
        return _rounded(2 * self.radius**2 / self.rho, up=True)

    @property
    def count_variance(self) -> Fraction:
        return _rounded(2 / self.rho, up=True)

    @property
    def least_count(self) -> int:
        """A cluster with a smaller noisy count keeps its centre: 2 sqrt(2) sigma_c."""
        return math.ceil(2 * math.sqrt(2 * self.count_variance))

    @property
    def count_deviation(self) -> int:
        """Of a released count, both clouds' noise together; rounded down."""
        return math.isqrt(math.floor(2 * self.count_variance))

    def start(self) -> Integers:
        """The K public centres."""
        return spread_points(self.centres, self.columns, self.ub, self.seed)


def _rounded(value: float | Fraction, *, up: bool) -> Fraction:
    """A fraction with a power of 2 below, near to the value and on the wanted side of it."""
    exact = Fraction(value) * (Fraction(1) - Fraction(1, 1 << 44) if not up else 1)
    power = 40 - math.floor(math.log2(exact))
    scaled = exact * Fraction(2) ** power
    return Fraction(math.ceil(scaled) if up else math.floor(scaled)) / Fraction(2) ** power


def residual_sums(records: Integers, centres: Integers, radius: int) -> tuple[Integers, Integers]:
    """(sums of residuals, counts) of the records within the radius of their nearest centre.

    The nearest is the lowest on ties; exactly at the radius counts as within.
    """
    sums, counts = np.zeros(centres.shape, np.int64), np.zeros(len(centres), np.int64)
    floats = centres.astype(np.float64)
    step = max(1, (1 << 22) // len(centres))
    for start in range(0, len(records), step):
        part = records[start : start + step]
        distances = squared_distances(part.astype(np.float64), floats)
        labels = distances.argmin(axis=1)
        within = distances.min(axis=1) <= radius * radius
        np.add.at(sums, labels[within], part[within] - centres[labels[within]])
        counts += np.bincount(labels[within], minlength=len(centres))
    return sums, counts


def moved_centres(centres: Integers, sums: Integers, counts: Integers, plan: NoisePlan) -> Integers:
    """c_h + (mean residual, cut to the radius), from noisy sums and counts, whole and in 0..ub."""
    new = centres.copy()
    for h in np.flatnonzero(counts >= plan.least_count).tolist():
        vector, count = [int(x) for x in sums[h]], int(counts[h])
        length = math.isqrt(sum(x * x for x in vector))  # of the sum, rounded down
        scale = Fraction(1, count)
        if length > plan.radius * count:
            scale = Fraction(plan.radius, length)
        new[h] = [
            min(plan.ub, max(0, int(c) + round(x * scale)))
            for c, x in zip(centres[h], vector, strict=True)
        ]
    return new


def relocated(centres: Integers, counts: Integers, plan: NoisePlan, iteration: int) -> Integers:
    """Centres with a noisy count below one deviation, moved beside the heaviest ones.

    The heaviest must hold HEAVY times the least count, and is taken for half as heavy for every
    centre that it gets. The place is half a radius away, in a direction from the public seed.
    """
    random = SecureRandom(b"".join(n.to_bytes(16, "big") for n in (plan.seed, iteration + 1)))
    weights = np.where(counts >= plan.least_count, counts, 0)
    new = centres.copy()
    for h in np.flatnonzero(counts < plan.count_deviation).tolist():
        heaviest = int(weights.argmax())
        if weights[heaviest] < HEAVY * plan.least_count:
            break
        draws = [int(x) - plan.radius for x in random.below(2 * plan.radius + 1, plan.columns)]
        length = max(1, math.isqrt(sum(x * x for x in draws)))
        new[h] = [
            min(plan.ub, max(0, int(c) + round(Fraction(x * plan.radius, 2 * length))))
            for c, x in zip(centres[heaviest], draws, strict=True)
        ]
        weights[h] = weights[heaviest] = weights[heaviest] // 2
    return new


@dataclass(frozen=True, slots=True)
class Opened:
    """What both clouds see of one iteration."""

    sums: Integers
    counts: Integers


@dataclass(frozen=True, slots=True)
class NoisyResult:
    """The merged centres in encoded units with their sizes, and everything that was opened."""

    centres: NDArray[np.float64]
    sizes: NDArray[np.float64]
    opened: tuple[Opened, ...]


def noisy_kmeans(records: Integers, plan: NoisePlan, noise: Noise) -> NoisyResult:
    """All iterations on plaintext, with the given noise (both clouds' together)."""
    centres, opened = plan.start(), list[Opened]()
    for iteration in range(plan.iterations):
        if opened:
            centres = relocated(centres, opened[-1].counts, plan, iteration)
        sums, counts = residual_sums(records, centres, plan.radius)
        noisy = Opened(
            sums + noise(sums.shape, plan.sum_variance),
            counts + noise(counts.shape, plan.count_variance),
        )
        opened.append(noisy)
        centres = moved_centres(centres, noisy.sums, noisy.counts, plan)
    merged, sizes = merge(centres, opened[-1].counts, plan)
    return NoisyResult(merged, sizes, tuple(opened))


def merge(
    centres: Integers, counts: Integers, plan: NoisePlan
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """K noisy (centre, count) pairs to k by weighted k-means: sees only what is released."""
    weights = np.maximum(counts, 0).astype(np.float64)
    if np.count_nonzero(weights) < plan.k:
        weights = weights + 1.0
    random = SecureRandom(plan.seed.to_bytes(32, "big"))
    return weighted_kmeans(centres.astype(np.float64), weights, plan.k, random=random)


def two_clouds_noise(first: SecureRandom, second: SecureRandom) -> Noise:
    """Both clouds' noise from their generators, as the protocol would add it up."""

    def draw(shape: tuple[int, ...], variance: Fraction) -> Integers:
        own, other = (gaussian_noise(random, variance, shape) for random in (first, second))
        return np.asarray(own + other)

    return draw
