"""Bits and bytes of the numbers of a job with noise, from its public numbers."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import WidthError
from ppodc.kmeans.private.noisy_kmeans import Integers, NoisePlan
from ppodc.mpc.ot.correlated_ot import top_bytes
from ppodc.mpc.shares.additive import U64Array

_MOST_VALUE_BITS = 20
_DEVIATIONS = 64  # a noise beyond this many has a chance below e^-2048


@dataclass(frozen=True, slots=True)
class Ring:
    """Distances are compared in `distance_bits`, sums and counts kept modulo 2^(8 sum_top)."""

    bits: int  # of a value
    distance_bits: int
    sum_top: int  # bytes

    @classmethod
    def of(cls, plan: NoisePlan, m: int) -> "Ring":
        """WidthError if the numbers are too large."""
        if plan.ub > 1 << _MOST_VALUE_BITS:
            raise WidthError(f"ub = {plan.ub} is above 2^{_MOST_VALUE_BITS}; rescale the columns.")
        # ||t - c_h||^2 - ||t - c_g||^2 and r^2 - ||t - c_h||^2
        largest = max(plan.columns * plan.ub**2, plan.radius**2)
        # |sum of residuals| <= m r, a count <= m, and two noises
        noise = 2 * _DEVIATIONS * (math.isqrt(math.ceil(plan.sum_variance)) + 1)
        counts = 2 * _DEVIATIONS * (math.isqrt(math.ceil(plan.count_variance)) + 1)
        sums = max(m * plan.radius + noise, m + counts)
        if sums.bit_length() > 62 or largest.bit_length() > 62:
            raise WidthError(
                "the noisy sums of this job do not fit in 64 bits. Use a larger epsilon, a "
                "smaller ub or fewer columns."
            )
        top = max(4, top_bytes(sums.bit_length() + 1))
        return cls(plan.ub.bit_length(), largest.bit_length(), top)

    @property
    def distance_top(self) -> int:
        """Bytes of a difference of distances and its sign."""
        return top_bytes(self.distance_bits + 1)

    def reduced(self, words: U64Array) -> NDArray[np.uint32] | NDArray[np.uint64]:
        """Words in the ring of sums: whatever stands above it must not be sent."""
        return words.astype(np.uint32) if self.sum_top == 4 else words

    def signed(self, values: NDArray[np.uint32] | NDArray[np.uint64]) -> Integers:
        """The numbers of both signs that words of the ring mean."""
        kind = np.int32 if values.dtype == np.uint32 else np.int64
        return values.view(kind).astype(np.int64)
