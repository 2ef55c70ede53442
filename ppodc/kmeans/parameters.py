"""The public numbers of a k-means job, as its protocols take them."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Products = Literal["auto", "lattice", "transfers"]  # how the shares suite multiplies records
Supplies = Literal["extension", "silent"]  # the transfers that its supplies come from

SILENT = (
    "The clouds make their supplies by silent transfers. These rest on one more assumption, "
    "regular LPN with a local code, and no claim against a cloud that deviates covers such a job."
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The public numbers of a job: m records, l attributes in 0..ub, k clusters.

    Of a cluster in which fewer than `min_size` records are not its own an owner learns nothing.
    Without `stops` there is no stop test: the number of iterations is public.
    """

    m: int
    l: int
    k: int
    ub: int
    beta: Fraction
    min_size: int = 1
    products: Products = "auto"
    stops: bool = True
    supplies: Supplies = "extension"
