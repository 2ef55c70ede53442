"""Limbs and bits of each kind of value, from the public numbers of a job.

Values are b-bit numbers whatever was uploaded, so bounds are those of ub = 2^b - 1. Distances are
in fixed point (`fixed_point`), whose width hardly depends on k; only the stop test for beta > 0
takes numbers that grow with k.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from ppodc.errors import InputError, WidthError
from ppodc.kmeans import widths
from ppodc.kmeans.half import State
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares.fixed_point import FixedPoint
from ppodc.mpc.ot.correlated_ot import top_bytes
from ppodc.mpc.shares.additive import LIMB_BITS, U64, U64Array

MAX_LIMBS = 256
_MAX_VALUE_BITS = 20
_NARROW_BITS = 32


@dataclass(frozen=True, slots=True)
class Rings:
    """Limbs of the rings, and bits of what is compared in them."""

    bits: int  # of a value
    sum_bits: int  # of a sum or count in a state that are right: 32 where these are enough, else 64
    point: FixedPoint
    distance: int  # of a record's score before bits are dropped, and of the records' shares
    distance_top: int  # bytes of the last limb that it needs
    centre: int  # of sums times reciprocals
    movement: int  # the squared movement of a centre, times both counts squared, and all of them
    movement_bits: int
    stop: int  # limbs and bits of the stop test for beta > 0; 0 for beta = 0
    stop_bits: int
    beta: Fraction

    @classmethod
    def of(cls, p: Parameters) -> "Rings":
        """The rings of a job; WidthError if its numbers are too large."""
        bits = p.ub.bit_length()
        if p.ub > 1 << _MAX_VALUE_BITS:
            raise WidthError(f"ub = {p.ub} is above 2^{_MAX_VALUE_BITS}; rescale the columns.")
        full = replace(p, ub=(1 << bits) - 1)
        point = FixedPoint.of(p.m, p.l, p.k, full.ub)
        # sum_h sum_s (|c'_h| lambda_h[s] - |c_h| lambda'_h[s])^2
        most = (p.m + p.k) ** 2 * full.ub
        movement_bits = (p.k * p.l * most**2).bit_length()
        beta = widths.clamp_beta(full)
        stop = widths.stop_limbs(full) if beta else 0
        if stop > MAX_LIMBS:
            raise WidthError(
                f"the stop test of {p.m} records in {p.k} clusters needs numbers of "
                f"{LIMB_BITS * stop} bits; {LIMB_BITS * MAX_LIMBS} are supported. "
                "Use beta = 0 or fewer clusters."
            )
        return cls(
            bits,
            sum_bits(p),
            point,
            _limbs(point.product_bits),
            top_bytes(point.product_bits),
            _limbs(point.wide_bits),
            _limbs(movement_bits + 1),
            movement_bits,
            stop,
            widths.Widths.of(full).stop if beta else 0,
            beta,
        )

    @property
    def distance_bits(self) -> int:
        """Bits of a difference of distances when it is compared."""
        return self.point.compared

    @property
    def compared(self) -> int:
        """Limbs of such a difference and its sign."""
        return _limbs(self.point.compared + 1)

    @property
    def wide(self) -> int:
        """Limbs of the ring in which the clusters are kept for all steps."""
        return max(self.centre, self.movement, self.stop)


def sum_bits(p: Parameters) -> int:
    """Bits of the ring of sums and counts.

    A cluster's sum is at most (m + k) ub, a re-seeded one's included; below half of a ring of 32
    bits it can be widened from there (`mpc.shares.widen`).
    """
    largest = (p.m + p.k) * ((1 << p.ub.bit_length()) - 1)
    return _NARROW_BITS if largest < 1 << (_NARROW_BITS - 1) else LIMB_BITS


def cut(state: U64Array, bits: int) -> U64Array:
    """Words in the ring of sums: bits above it are none of the numbers' and must go nowhere."""
    return state if bits == LIMB_BITS else state & U64((1 << bits) - 1)


def _limbs(bits: int) -> int:
    return -(-bits // LIMB_BITS)


def checked(state: State) -> U64Array:
    """A state of this suite; one of the other suite has another type."""
    if state.dtype != U64 or state.ndim != 2:
        raise InputError("this state does not belong to the shares suite.")
    return state.astype(U64, copy=False)
