"""k-means with noise in the two clouds: the plaintext reference that the protocol equals.

Every iteration opens noisy sums and counts to both clouds, and only these; each cloud has added its
own discrete Gaussian noise to its own share before. Centres are public from then on.

*Proof.* Neighbours differ in one record replaced (row numbers are public). A record within the
radius r of its nearest public centre c_h adds its residual t - c_h, of length at most r, to the
sums of h and 1 to its count; a record farther away adds nothing. One record replaced moves

    one cluster's sums by at most 2r, no count:          (2r)^2 / (2s)            = 2 r^2/s
    two clusters' sums by at most r, two counts by 1:    2 r^2/(2s) + 2/(2c)      = r^2/s + 1/c
    one cluster's sums by at most r, one count by 1:     r^2/(2s) + 1/(2c)        (half of it)

with variances s of a sum and c of a count: the discrete Gaussian keeps D^2/(2 variance) of
zero-concentrated privacy for whole numbers that move by D, and independent coordinates add up.
s = 2 r^2/rho and c = 2/rho make the first two terms rho, so an opening keeps rho. T + SPARE of
them, each chosen after seeing the ones before, keep (T + SPARE) rho, which gives (epsilon, delta)
(`budget.concentrated_rho`). T are the iterations; SPARE is there for one that must be opened again,
with new noise, after a session was lost. One record added or removed is the third line: half the
rho. Starting points come from the public seed, moving and merging see only released values.

Each cloud's noise alone has these variances. C2 sees the opened values less its own noise, and so
do owners who help it: S + C1's noise, a full guarantee, and the same for C1. (Next centres depend
on C2's noise too, which only chooses the next question: the proof holds for any choice.) What is
released to owners has twice the variance.

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
from ppodc.errors import OptionError
from ppodc.privacy.concentrated import concentrated_rho
from ppodc.privacy.exact_noise import gaussian_noise
from ppodc.privacy.spread_points import spread_points
from ppodc.privacy.weighted_kmeans import squared_distances, weighted_kmeans

CENTRES_EACH = 3  # K = 3 k
PLANE, ITERATIONS_OF_A_PLANE, ITERATIONS = 2, 3, 4  # up to this many columns, and beyond
HEAVY = 8
SPARE = 1  # openings of a job beyond one for each iteration

Integers = NDArray[np.int64]
Noise = Callable[[int, Integers], Integers]  # both clouds' (K, l + 1), of an iteration, at centres


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """The public numbers of a job with noise: what all parties compute alike from the spec."""

    k: int
    columns: int
    ub: int
    epsilon: float
    delta: float
    iterations: int = 0  # 0: 3 up to two columns, else 4
    centres: int = 0  # K; 0: 3 k
    seed: int = 0

    def __post_init__(self) -> None:
        if self.k < 1 or self.columns < 1 or self.iterations < 0:
            raise OptionError("noise in the two clouds needs k, columns and iterations from 1")
        if not self.iterations:
            usual = ITERATIONS_OF_A_PLANE if self.columns <= PLANE else ITERATIONS
            object.__setattr__(self, "iterations", usual)
        if not self.centres:
            object.__setattr__(self, "centres", CENTRES_EACH * self.k)
        if self.centres < self.k:
            raise OptionError("there must be at least as many centres as clusters")
        concentrated_rho(self.epsilon, self.delta)

    @property
    def openings(self) -> int:
        """The number of openings of noisy sums that are allowed, and that the proof counts."""
        return self.iterations + SPARE

    @property
    def radius(self) -> int:
        """r = ub sqrt(l) K^(-1/l) / 2, rounded up: the least with (2r)^2l K^2 >= ub^2l l^l."""
        l, least = self.columns, self.ub ** (2 * self.columns) * self.columns**self.columns
        low, high = 0, self.ub * l + 1
        while high - low > 1:
            middle = (low + high) // 2
            enough = (2 * middle) ** (2 * l) * self.centres**2 >= least
            low, high = (low, middle) if enough else (middle, high)
        return high

    @property
    def rho(self) -> Fraction:
        """Of one opening, rounded down: (epsilon / (sqrt(L + epsilon) + sqrt(L)))^2 / openings.

        In numbers of 160 bits, which round alike on every machine.
        """
        import gmpy2
        from gmpy2 import mpfr

        with gmpy2.context(precision=160):
            log = -gmpy2.log(mpfr(self.delta))
            root = mpfr(self.epsilon) / (gmpy2.sqrt(log + mpfr(self.epsilon)) + gmpy2.sqrt(log))
            whole = gmpy2.mpq(root * root) / self.openings
        return _rounded(Fraction(int(whole.numerator), int(whole.denominator)), up=False)

    @property
    def sum_variance(self) -> Fraction:
        return _rounded(2 * self.radius**2 / self.rho, up=True)

    @property
    def count_variance(self) -> Fraction:
        return _rounded(2 / self.rho, up=True)

    @property
    def least_count(self) -> int:
        """A cluster with a smaller noisy count keeps its centre: 2 sqrt(2) sigma_c."""
        return math.isqrt(math.ceil(8 * self.count_variance) - 1) + 1

    @property
    def count_deviation(self) -> int:
        """Of a released count, both clouds' noise together; rounded down."""
        return math.isqrt(math.floor(2 * self.count_variance))

    def start(self) -> Integers:
        """The K public centres."""
        return spread_points(self.centres, self.columns, self.ub, self.seed)


def _rounded(exact: Fraction, *, up: bool) -> Fraction:
    """A fraction of about 40 bits over a power of 2, near to the value and on the wanted side."""
    below = exact * (1 - Fraction(1, 1 << 44))  # more than what made `exact` may have rounded off
    power = 40 - (exact.numerator.bit_length() - exact.denominator.bit_length())
    scaled = (exact if up else below) * Fraction(2) ** power
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
    """The opened values of one iteration, which both clouds see."""

    sums: Integers
    counts: Integers

    @classmethod
    def of(cls, table: Integers) -> "Opened":
        """From (K, l + 1): the sums of each cluster and behind them its count."""
        return cls(table[:, :-1].copy(), table[:, -1].copy())


def next_centres(centres: Integers, opened: Opened, plan: NoisePlan, done: int) -> Integers:
    """New centres after iteration `done`, from released values only; idle ones not last."""
    moved = moved_centres(centres, opened.sums, opened.counts, plan)
    return relocated(moved, opened.counts, plan, done) if done < plan.iterations else moved


@dataclass(frozen=True, slots=True)
class NoisyResult:
    """The merged centres in encoded units with their sizes, and everything that was opened.

    `points` and `counts` are the K centres of the last iteration, before merging.
    """

    centres: NDArray[np.float64]
    sizes: NDArray[np.float64]
    opened: tuple[Opened, ...]
    points: Integers
    counts: Integers


def noisy_kmeans(records: Integers, plan: NoisePlan, noise: Noise) -> NoisyResult:
    """All iterations on plaintext, with the given noise (both clouds' together)."""
    centres, opened = plan.start(), list[Opened]()
    for iteration in range(1, plan.iterations + 1):
        sums, counts = residual_sums(records, centres, plan.radius)
        exact = np.concatenate([sums, counts[:, None]], axis=1)
        opened.append(Opened.of(exact + noise(iteration, centres)))
        centres = next_centres(centres, opened[-1], plan, iteration)
    merged, sizes = merge(centres, opened[-1].counts, plan)
    return NoisyResult(merged, sizes, tuple(opened), centres, opened[-1].counts)


def merge(
    centres: Integers, counts: Integers, plan: NoisePlan
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """K noisy (centre, count) pairs to k by weighted k-means: sees only what is released."""
    weights = np.maximum(counts, 0).astype(np.float64)
    if np.count_nonzero(weights) < plan.k:
        weights = weights + 1.0
    random = SecureRandom.public(plan.seed)
    return weighted_kmeans(centres.astype(np.float64), weights, plan.k, random=random)


def own_noise(plan: NoisePlan, random: SecureRandom) -> Integers:
    """One cloud's noise of one iteration, (K, l + 1): of all sums, then of all counts."""
    sums = gaussian_noise(random, plan.sum_variance, (plan.centres, plan.columns))
    counts = gaussian_noise(random, plan.count_variance, (plan.centres, 1))
    return np.concatenate([sums, counts], axis=1)


def two_clouds_noise(plan: NoisePlan, first: SecureRandom, second: SecureRandom) -> Noise:
    """Both clouds' noise from their generators, as the protocol adds it up."""

    def draw(_iteration: int, _centres: Integers) -> Integers:
        return own_noise(plan, first) + own_noise(plan, second)

    return draw
