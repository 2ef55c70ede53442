"""A k-means result as an owner opens it: both clouds' halves added up, in real units."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.job import job_of
from ppodc.records.encode import decode_centres
from ppodc.records.output_half import OpenedResult
from ppodc.spec import Spec

CLUSTERS, LABELS = "clusters", "labels"  # names of the halves
SUMS = "sums"  # beside CLUSTERS in checkpoints


@dataclass(frozen=True, slots=True)
class Result:
    """The clusters of a dataset, and the labels of this owner's rows if the spec offers them.

    `sums_` and `sizes_` are exact, in encoded units; a centre is their quotient, rounded once. A
    cluster that is empty, or smaller than the spec's `min_size`, has size 0 and a centre of NaN.
    Labels stand in the order in which the owner uploaded; they may name such a cluster.
    """

    cluster_centers_: NDArray[np.float64]
    sizes_: NDArray[np.int64]
    sums_: NDArray[np.int64]
    n_iter_: int
    converged_: bool
    labels_: NDArray[np.int64] | None
    columns: tuple[str, ...]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows, one for each cluster."""
        rows = [
            [str(h), str(size), *(f"{x:.6g}" if size else "-" for x in centre)]
            for h, (size, centre) in enumerate(
                zip(self.sizes_.tolist(), self.cluster_centers_, strict=True)
            )
        ]
        return ["cluster", "records", *self.columns], rows

    def summary(self) -> str:
        """How the job ended, in a line."""
        return f"iterations: {self.n_iter_} ({ending(self.converged_)})"

    def own_rows(self) -> dict[str, list[int]]:
        """The label of each of this owner's rows, if the spec offers them."""
        return {} if self.labels_ is None else {"label": self.labels_.tolist()}

    def figures(self) -> dict[str, Any]:
        """All but the labels, for JSON; null is the centre of a cluster without a result."""
        centres = zip(self.sizes_.tolist(), self.cluster_centers_.tolist(), strict=True)
        return {
            "cluster_centers": [centre if size else None for size, centre in centres],
            "sizes": self.sizes_.tolist(),
            "n_iter": self.n_iter_,
            "converged": self.converged_,
        }


def ending(converged: bool) -> str:
    """Why the iterations ended."""
    return "converged" if converged else "stopped by max_iter"


def open_result(spec: Spec, opened: OpenedResult) -> Result:
    """The result; InputError if the halves cannot belong together."""
    sums, sizes = _clusters(spec, opened.values.get(CLUSTERS, []))
    try:
        n_iter, converged = int(opened.facts["n_iter"]), bool(opened.facts["converged"])
    except (KeyError, TypeError, ValueError):
        raise _mismatch() from None
    return Result(
        cluster_centers_=decode_centres(sums, sizes, spec.schema),
        sizes_=sizes,
        sums_=sums,
        n_iter_=n_iter,
        converged_=converged,
        labels_=_labels(spec, opened),
        columns=tuple(spec.schema.names),
    )


def _clusters(spec: Spec, values: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(sums, sizes) from the k * (l + 1) opened values."""
    columns, k = len(spec.schema.columns), job_of(spec).k
    if len(values) != k * (columns + 1):
        raise _mismatch()
    rows = [values[h * (columns + 1) : (h + 1) * (columns + 1)] for h in range(k)]
    least = job_of(spec).min_size
    for *sums, size in rows:
        # Halves of two different runs add up to random numbers, which this finds. Values are
        # clamped to 0..ub where they are taken in: no upload can make a result look like that.
        if not (size == 0 or least <= size < 1 << 40) or max(sums) > size * spec.schema.ub:
            raise _mismatch()
    table = np.array(rows, np.int64).reshape(k, columns + 1)
    return table[:, :columns].copy(), table[:, columns].copy()


def _labels(spec: Spec, opened: OpenedResult) -> NDArray[np.int64] | None:
    if not job_of(spec).labels:
        return None
    values = opened.rows.get(LABELS, [])
    if values and max(values) >= job_of(spec).k:
        raise _mismatch()
    return np.array(values, np.int64)


def _mismatch() -> InputError:
    return InputError(
        "the halves of the two clouds do not belong together; ask their operators to run the job "
        "again."
    )
