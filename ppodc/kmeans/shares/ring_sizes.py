"""How many limbs and bits each kind of value takes, from the public numbers of a job.

Values are b-bit numbers whatever was uploaded, so bounds are those of ub = 2^b - 1. There is no
limit on k or m but time: a width that needs more limbs takes more limbs.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from ppodc.errors import WidthError
from ppodc.kmeans import widths
from ppodc.kmeans.half import Parameters
from ppodc.mpc.additive import LIMB_BITS
from ppodc.mpc.correlated_ot import top_bytes

MAX_LIMBS = 256
_MAX_VALUE_BITS = 20


@dataclass(frozen=True, slots=True)
class Rings:
    """Limbs of the rings, and bits of what is compared in them."""

    bits: int  # of a value
    distance: int
    distance_bits: int
    distance_top: int  # bytes of the last limb that a signed distance needs
    norm: int  # ||lambda_h||^2
    stop: int
    stop_bits: int
    movement: int  # the squared movement of a centre, times both counts squared
    beta: Fraction

    @classmethod
    def of(cls, p: Parameters) -> "Rings":
        """The rings of a job; WidthError if its numbers are too large."""
        bits = p.ub.bit_length()
        if p.ub > 1 << _MAX_VALUE_BITS:
            raise WidthError(f"ub = {p.ub} is above 2^{_MAX_VALUE_BITS}; rescale the columns.")
        full = replace(p, ub=(1 << bits) - 1)
        width = widths.Widths.of(full)
        distance, stop = widths.limbs(full), widths.stop_limbs(full)
        if stop > MAX_LIMBS:
            raise WidthError(
                f"{p.m} records in {p.k} clusters need numbers of {LIMB_BITS * stop} bits; "
                f"{LIMB_BITS * MAX_LIMBS} are supported. Use fewer clusters."
            )
        most = (p.m + p.k) * full.ub
        norm = _limbs((p.l * most**2).bit_length())
        movement = _limbs((p.l * ((p.m + p.k) * most) ** 2).bit_length())
        return cls(
            bits,
            distance,
            width.distance,
            top_bytes(width.distance + 1),
            min(norm, distance),
            stop,
            width.stop,
            min(movement, stop),
            widths.clamp_beta(full),
        )


def _limbs(bits: int) -> int:
    return -(-bits // LIMB_BITS)
