"""A private k-means result as an owner opens it: K noisy points, merged to k clusters.

What the clouds give are whole numbers, the points of the last iteration and their noisy counts;
merging sees nothing else, so it costs no privacy, and every owner merges to the same clusters.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.private.job import job_of, plan_of
from ppodc.kmeans.private.kind import POINTS, points_digest
from ppodc.kmeans.private.noisy_kmeans import Integers, merge
from ppodc.notebook import ShownInNotebooks
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.privacy.weighted_kmeans import nearest, squared_distances
from ppodc.records.encode import on_grid
from ppodc.records.result_shares import OpenedResult, Table, mismatch
from ppodc.records.schema import Schema
from ppodc.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

    Records = pd.DataFrame | NDArray[Any] | str | Path


@dataclass(frozen=True, slots=True)
class PrivateResult(ShownInNotebooks):
    """Clusters under differential privacy, in real units.

    `sizes_` are noisy, and `size_deviation_` is the standard deviation of the noise in the count of
    one point; `points_` and `counts_` are what the clusters were merged from.
    """

    cluster_centers_: NDArray[np.float64]
    encoded_centres_: NDArray[np.float64]
    sizes_: NDArray[np.float64]
    points_: NDArray[np.float64]
    counts_: Integers
    size_deviation_: float
    n_iter_: int
    privacy_: PrivacyReport
    schema: Schema
    # what an exact result may have besides
    converged_: ClassVar[bool] = False  # nobody knows: the number of iterations is fixed
    labels_: ClassVar[None] = None
    inertia_: ClassVar[None] = None

    def untold(self) -> str:
        """Nothing: every point is told, with its noise."""
        return ""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def predict(self, data: "Records") -> NDArray[np.int64]:
        """The nearest centre of each of the owner's records, which stay here."""
        return self.label(on_grid(data, self.schema))

    def distances(self, data: "Records") -> NDArray[np.float64]:
        """From each record to each centre, in steps of 1/ub of the columns' ranges."""
        values = on_grid(data, self.schema).astype(np.float64)
        return np.sqrt(np.maximum(squared_distances(values, self.encoded_centres_), 0.0))

    def inertia_of(self, data: "Records") -> float:
        """The records' squared distances to their nearest centres, summed in those steps."""
        return float((self.distances(data).min(axis=1) ** 2).sum())

    def table(self) -> Table:
        """Headings and rows, one for each cluster."""
        rows = [
            [h, round(self.sizes_[h]), *centre]
            for h, centre in enumerate(self.cluster_centers_.tolist())
        ]
        return ["cluster", "records, noisy", *self.columns], rows

    def summary(self) -> str:
        """The result's reliability, in a line or two."""
        return (
            f"iterations: {self.n_iter_}, as fixed; {len(self.counts_)} points, each counted to "
            f"within +-{self.size_deviation_:.0f} (standard deviation). {self.privacy_}"
        )

    def own_rows(self) -> dict[str, list[int]]:
        """None: labels are found by the owner itself (`label`)."""
        return {}

    def label(self, values: Integers) -> NDArray[np.int64]:
        """The nearest centre of each encoded record, found at its owner."""
        return nearest(values.astype(np.float64), self.encoded_centres_)

    def figures(self) -> dict[str, Any]:
        """The whole result as plain types for JSON."""
        return {
            "columns": list(self.columns),
            "cluster_centers": self.cluster_centers_.tolist(),
            "sizes": self.sizes_.tolist(),
            "points": self.points_.tolist(),
            "counts": self.counts_.tolist(),
            "size_deviation": self.size_deviation_,
            "n_iter": self.n_iter_,
            "privacy": self.privacy_.to_dict(),
        }


def open_result(spec: Spec, opened: OpenedResult) -> PrivateResult:
    """The result; InputError if the halves cannot belong together."""
    plan = plan_of(spec)
    words = np.array(opened.values.get(POINTS, []), np.uint64)
    if words.size != plan.centres * (plan.columns + 1):
        raise mismatch()
    table = words.view(np.int64).reshape(plan.centres, plan.columns + 1)
    if opened.facts.get("points") != points_digest(table):
        raise mismatch()
    points, counts = table[:, :-1].copy(), table[:, -1].copy()
    if points.min() < 0 or points.max() > plan.ub or opened.facts.get("n_iter") != plan.iterations:
        raise mismatch()
    centres, sizes = merge(points, counts, plan)
    return PrivateResult(
        cluster_centers_=_real(centres, spec.schema),
        encoded_centres_=centres,
        sizes_=sizes,
        points_=_real(points.astype(np.float64), spec.schema),
        counts_=counts,
        size_deviation_=math.sqrt(2 * plan.count_variance),
        n_iter_=plan.iterations,
        privacy_=job_of(spec).guarantee(),
        schema=spec.schema,
    )


def _real(values: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
    low = np.array([column.low for column in schema.columns])
    high = np.array([column.high for column in schema.columns])
    return np.asarray(low + values / schema.ub * (high - low))
