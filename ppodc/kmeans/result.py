"""A k-means result as an owner opens it: both clouds' halves added up, in real units."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.extras import named_if_missing
from ppodc.kmeans import placement
from ppodc.kmeans.job import job_of
from ppodc.kmeans.kind import CLUSTERS, LABELS, ending, output_name
from ppodc.linkage.outputs import ROWS
from ppodc.linkage.result import in_own_order
from ppodc.notebook import ShownInNotebooks
from ppodc.records.encode import on_grid
from ppodc.records.grid import decode_centres
from ppodc.records.result_shares import OpenedResult, Table, mismatch
from ppodc.records.schema import Schema
from ppodc.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    Records = pd.DataFrame | NDArray[Any] | str | Path


@dataclass(frozen=True, slots=True)
class Result(ShownInNotebooks):
    """The clusters of a dataset, and the labels of this owner's rows if the spec offers them.

    `sums_` and `sizes_` are exact, in encoded units; a centre is their quotient, rounded once. A
    cluster that is empty, or in which fewer than the spec's `min_size` records are not this
    owner's, has size 0 and a centre of NaN. Labels stand in the order in which the owner uploaded;
    they may name such a cluster. `inertia_`, if the spec offers it, is exact, in squared encoded
    units, over the clusters that have a centre. Of joined rows the owners of the anchor alone have
    labels, -1 where a row is not joined. Of a job with several starts `n_iter_` are the
    iterations of all of them, and it has converged if all have. `converged_` is None if the spec
    fixes the number of iterations: nobody tests it.
    """

    cluster_centers_: NDArray[np.float64]
    sizes_: NDArray[np.int64]
    sums_: NDArray[np.int64]
    n_iter_: int
    converged_: bool | None
    labels_: NDArray[np.int64] | None
    schema: Schema
    inertia_: Fraction | None = None
    joined: bool = False  # the records are joined rows
    sized: bool = True  # False: sizes are not told, and `sizes_` has 1 for each centre that is

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def predict(self, data: "Records") -> NDArray[np.int64]:
        """The nearest centre of each of the owner's records, which stay here."""
        return placement.labels(on_grid(data, self.schema), self.sums_, self.sizes_)

    def distances(self, data: "Records") -> NDArray[np.float64]:
        """From each record to each centre, in steps of 1/ub of the columns' ranges."""
        return placement.distances(on_grid(data, self.schema), self.sums_, self.sizes_)

    def inertia_of(self, data: "Records") -> float:
        """The records' squared distances to their nearest centres, summed in those steps."""
        return float(placement.inertia(on_grid(data, self.schema), self.sums_, self.sizes_))

    def to_frame(self) -> "pd.DataFrame":
        """A row for each cluster: its number of records and its centre."""
        with named_if_missing():
            import pandas as pd

        frame = pd.DataFrame(self.cluster_centers_, columns=list(self.columns))
        if self.sized:
            frame.insert(0, "records", self.sizes_, allow_duplicates=True)
        return frame.rename_axis("cluster")

    def plot(
        self, data: "Records | None" = None, *, x: int = 0, y: int = 1, axes: "Axes | None" = None
    ) -> "Axes":
        """The centres over two columns, by number; with the owner's records, coloured by cluster.

        Records are a table or a list of tables. Needs at least two columns; draws into `axes`, or
        into a new figure.
        """
        from ppodc.kmeans.result_plot import draw

        return draw(self, data, x, y, axes)

    def table(self) -> Table:
        """Headings and rows, one for each cluster; NaN where there is no centre."""
        centres = zip(self.sizes_.tolist(), self.cluster_centers_.tolist(), strict=True)
        if not self.sized:
            return ["cluster", *self.columns], [[h, *c] for h, (_, c) in enumerate(centres)]
        rows = [[h, size, *centre] for h, (size, centre) in enumerate(centres)]
        return ["cluster", "records", *self.columns], rows

    def summary(self) -> str:
        """The end of the job, in a line."""
        inertia = "" if self.inertia_ is None else f", inertia: {float(self.inertia_):.6g}"
        told = f"\n{self.untold()}" if self.untold() else ""
        return f"iterations: {self.n_iter_} ({ending(self.converged_)}){inertia}{told}"

    def untold(self) -> str:
        """The number of clusters too small to be revealed, and advice; empty if there is none."""
        small, k = int((self.sizes_ == 0).sum()), len(self.sizes_)
        if not small:
            return ""
        if self.joined:
            return (
                f"{small} of the {k} clusters have fewer joined rows than min_size, or fewer than "
                "least are joined in all. Rows of your own do not count where other owners hold "
                "the same columns. You learn nothing of these clusters, and their centres are NaN."
            )
        return (
            f"{small} of the {k} clusters have fewer records than min_size. Your own do not count "
            "where other owners have records too. You learn nothing of these clusters, and their "
            "centres are NaN. Fewer clusters help, or a smaller min_size."
        )

    def own_rows(self) -> dict[str, list[int]]:
        """The label of each of this owner's rows, if the spec offers them."""
        return {} if self.labels_ is None else {"label": self.labels_.tolist()}

    def figures(self) -> dict[str, Any]:
        """All but the labels, for JSON; null is the centre of a cluster without a result."""
        centres = zip(self.sizes_.tolist(), self.cluster_centers_.tolist(), strict=True)
        return {
            "columns": list(self.columns),
            "cluster_centers": [centre if size else None for size, centre in centres],
            "sizes": self.sizes_.tolist() if self.sized else None,
            "n_iter": self.n_iter_,
            "converged": self.converged_,
            **({} if self.inertia_ is None else {"inertia": float(self.inertia_)}),
        }


@dataclass(frozen=True, slots=True)
class ResultsByK(ShownInNotebooks):
    """The results of a job with several numbers of clusters: `by_k[4]` is that of four."""

    by_k: Mapping[int, Result]

    @property
    def inertias_(self) -> dict[int, Fraction]:
        """The inertia for each k; empty if the spec does not offer it."""
        found = ((k, result.inertia_) for k, result in self.by_k.items())
        return {k: inertia for k, inertia in found if inertia is not None}

    def table(self) -> Table:
        """Headings and rows, one for each cluster of each k."""
        tables = {k: result.table() for k, result in self.by_k.items()}
        headings = next(headings for headings, _ in tables.values())
        rows = [[k, *row] for k, (_, rows) in tables.items() for row in rows]
        return ["k", *headings], rows

    def summary(self) -> str:
        """The end of the job and the result of each k, a line each."""
        last = next(iter(self.by_k.values()))
        lines = [f"iterations: {last.n_iter_} in all ({ending(last.converged_)})"]
        lines += [f"k = {k}: inertia {float(x):.6g}" for k, x in self.inertias_.items()]
        return "\n".join(lines)

    def own_rows(self) -> dict[str, list[int]]:
        """The labels of this owner's rows for each k, if the spec offers them."""
        return {
            f"{name}_{k}": values
            for k, result in self.by_k.items()
            for name, values in result.own_rows().items()
        }

    def figures(self) -> dict[str, Any]:
        """The figures of each k as plain types for JSON."""
        return {"by_k": {str(k): result.figures() for k, result in self.by_k.items()}}


def open_result(spec: Spec, opened: OpenedResult) -> Result | ResultsByK:
    """The result; InputError if the halves cannot belong together."""
    job = job_of(spec)
    if not job.ks:
        return open_one(spec, opened, job.k)
    return ResultsByK({k: open_one(spec, opened, k) for k in job.ks})


def open_one(spec: Spec, opened: OpenedResult, k: int) -> Result:
    """The result of one k; InputError if the halves cannot belong together."""
    values = opened.values.get(output_name(job_of(spec), CLUSTERS, k), [])
    schema = job_of(spec).clustered(spec.schema)
    count = k * (len(schema.columns) + 1)
    sums, sizes = _clusters(spec, values[:count], k)
    try:
        n_iter, converged = int(opened.facts["n_iter"]), opened.facts["converged"]
    except (KeyError, TypeError, ValueError):
        raise mismatch() from None
    return Result(
        cluster_centers_=decode_centres(sums, sizes, schema),
        sizes_=sizes,
        sums_=sums,
        n_iter_=n_iter,
        converged_=converged,
        labels_=_labels(spec, opened, k),
        schema=schema,
        inertia_=_inertia(spec, values[count:], sums, sizes),
        joined=job_of(spec).join is not None,
        sized=job_of(spec).sizes,
    )


def _clusters(spec: Spec, values: list[int], k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(sums, sizes) from the k * (l + 1) opened values."""
    columns = len(job_of(spec).clustered(spec.schema).columns)
    if len(values) != k * (columns + 1):
        raise mismatch()
    rows = [values[h * (columns + 1) : (h + 1) * (columns + 1)] for h in range(k)]
    least = job_of(spec).min_size if job_of(spec).sizes else 1
    for *sums, size in rows:
        # Halves of two different runs add up to random numbers, which this finds. Values are
        # clamped to 0..ub where they are taken in: no upload can make a result look like that.
        if not (size == 0 or least <= size < 1 << 40) or max(sums) > size * spec.schema.ub:
            raise mismatch()
    table = np.array(rows, np.int64).reshape(k, columns + 1)
    return table[:, :columns].copy(), table[:, columns].copy()


def _inertia(
    spec: Spec, values: list[int], sums: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Fraction | None:
    """sum ||x||^2, which is the one value, less sum_h ||lambda_h||^2 / n_h."""
    offered = job_of(spec).inertia
    if len(values) != int(offered):
        raise mismatch()
    if not offered:
        return None
    clusters = zip(sums.tolist(), sizes.tolist(), strict=True)
    parts = [Fraction(sum(x * x for x in row), size) for row, size in clusters if size]
    inertia = values[0] - sum(parts, Fraction(0))
    most = int(sizes.sum()) * sums.shape[1] * spec.schema.ub**2
    if not 0 <= inertia <= most:
        raise mismatch()
    return inertia


def _labels(spec: Spec, opened: OpenedResult, k: int) -> NDArray[np.int64] | None:
    job = job_of(spec)
    if not job.labels:
        return None
    name = output_name(job, LABELS, k)
    if name not in opened.rows:  # not asked for
        return None
    values = opened.rows.get(name, [])
    if job.rearranged:
        own = opened.rows.get(ROWS, [])
        if len(own) != len(values):
            raise mismatch()
        values = in_own_order(own, {name: values})[name]
    first = int(job.join is not None)  # 0 is a row that is not joined
    if values and max(values) >= k + first:
        raise mismatch()
    return np.array(values, np.int64) - first
