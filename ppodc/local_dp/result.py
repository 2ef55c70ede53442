"""The result of a local job: made by the collector, opened by an owner in real units.

There is one half, cloud 1's, and it holds the values themselves: k rows of centre and size, in
encoded units as multiples of 2^-16. What it rests on is estimated; `noise_` says how much of an
even cluster is noise, where that is known.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.local_dp.job import job_of, tops
from ppodc.local_dp.kind import CLUSTERS, FRACTION, LABELS, form_of
from ppodc.local_dp.mechanism import Mechanism
from ppodc.local_dp.published.groupings import GroupedBits
from ppodc.local_dp.stability import Stability, warning
from ppodc.notebook import ShownInNotebooks
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.records.result_shares import OpenedResult, Table
from ppodc.records.schema import Schema
from ppodc.spec import Spec


@dataclass(frozen=True, slots=True)
class LocalResult(ShownInNotebooks):
    """Clusters of perturbed reports; `usable_` is False where they are little but noise.

    A column of words has the number of its word in `cluster_centers_`; `modes_` has the words. Its
    `standard_error_` is how often noise that is drawn again chooses another word.
    """

    cluster_centers_: NDArray[np.float64]
    sizes_: NDArray[np.float64]
    count_: int
    privacy_: PrivacyReport
    noise_: float | None
    schema: Schema
    mechanism: Mechanism
    encoded: NDArray[np.float64]  # the centres in units of the encoded records
    loss_: float | None = None  # by noise drawn again (`stability`)
    labels_: NDArray[np.int64] | None = None  # of own reports, -1 is noise: of a `grouping` alone
    standard_error_: NDArray[np.float64] | None = None  # of each centre, in real units

    @property
    def usable_(self) -> bool:
        return not self.doubt

    @property
    def doubt(self) -> str:
        """Why the clusters should not be relied on; empty if they may be."""
        return _doubt(self.mechanism, self.loss_, self.noise_)

    @property
    def modes_(self) -> list[list[float | str]]:
        """The centres with words where a column has them."""
        return [
            [column.values[int(x)] if column.values else float(x)
             for column, x in zip(self.schema.columns, centre, strict=True)]
            for centre in self.cluster_centers_
        ]  # fmt: skip

    def label(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cluster of each of these encoded records: the nearest centre or mode."""
        if isinstance(self.mechanism, GroupedBits) and self.mechanism.grouping.least:
            raise InputError(
                "clusters of dbscan have no centre that is nearest to all they hold; the labels of "
                "your reports come with the result: `ppodc result NAME --labels FILE`."
            )
        return self.mechanism.label(values, self.encoded)

    def table(self) -> Table:
        """Headings and rows, one for each cluster."""
        rows = [[h, round(self.sizes_[h]), *centre] for h, centre in enumerate(self.modes_)]
        return ["cluster", "records, estimated", *self.schema.names], rows

    def summary(self) -> str:
        """The result's reliability, in a line or two."""
        noise = "" if self.noise_ is None else f"; noise {self.noise_:.0%} of an even cluster"
        told = f"\n{self.doubt}" if self.doubt else ""
        return f"{self.count_} reports{noise}. {self.privacy_}{told}"

    def own_rows(self) -> dict[str, list[int]]:
        """Labels of reports, if all pairs were compared; else `label` finds those of records."""
        return {} if self.labels_ is None else {"label": self.labels_.tolist()}

    def figures(self) -> dict[str, Any]:
        """The whole result as plain types for JSON."""
        errors = self.standard_error_
        return {
            "columns": self.schema.names,
            "cluster_centers": self.modes_,
            "sizes": self.sizes_.tolist(),
            "count": self.count_,
            "noise": self.noise_,
            "usable": self.usable_,
            "standard_error": None if errors is None else errors.tolist(),
            "privacy": self.privacy_.to_dict(),
        }


def doubt(mechanism: Mechanism, stability: Stability | None, n: int, k: int) -> str:
    """Why k clusters of n reports should not be relied on; empty if they may be."""
    expected = mechanism.expectation(n, k)
    loss = None if stability is None else stability.loss
    return _doubt(mechanism, loss, None if expected is None else expected.noise)


def _doubt(mechanism: Mechanism, loss: float | None, noise: float | None) -> str:
    if not isinstance(mechanism, GroupedBits):
        return warning(loss, noise)
    blurred = "little but noise: estimated distances deviate by more than they could tell."
    return blurred if mechanism.blurred else ""


def open_result(spec: Spec, opened: OpenedResult) -> LocalResult:
    """At the owner; InputError for values that no collector could have computed."""
    job, mechanism = job_of(spec), form_of(spec).mechanism
    columns, count = len(spec.schema.columns), opened.facts.get("records")
    values = np.array(opened.values.get(CLUSTERS, []), np.float64)
    if not isinstance(count, int) or count < job.k or len(values) != job.k * (columns + 1):
        raise InputError("the collector's result does not fit the spec; ask its operator.")
    table = values.reshape(job.k, columns + 1) / FRACTION
    top = tops(job, spec.schema)
    if (table[:, :-1] > top).any():
        raise InputError("the collector's centres lie outside the columns; ask its operator.")
    low = np.array([column.low for column in spec.schema.columns])
    high = np.array([column.high for column in spec.schema.columns])
    if job.grouping is not None:
        table = table[table[:, -1] > 0]  # dbscan tells at most k
    expected = mechanism.expectation(count, job.k)
    loss, errors = _stability(opened, job.k, columns)
    return LocalResult(
        cluster_centers_=low + table[:, :-1] / top * (high - low),
        sizes_=table[:, -1],
        count_=count,
        privacy_=form_of(spec).guarantee,
        noise_=None if expected is None else expected.noise,
        schema=spec.schema,
        mechanism=mechanism,
        encoded=table[:, :-1],
        loss_=loss,
        labels_=_labels(opened, job.k),
        standard_error_=None if errors is None else errors / top * (high - low),
    )


def _labels(opened: OpenedResult, k: int) -> NDArray[np.int64] | None:
    """Labels of this owner's reports, if the job offers them and they were fetched."""
    if LABELS not in opened.rows:
        return None
    labels = np.array(opened.rows[LABELS], np.float64)
    if (labels > k).any():
        raise InputError("the collector's labels do not fit the spec; ask its operator.")
    return labels.astype(np.int64) - 1


def _stability(
    opened: OpenedResult, k: int, columns: int
) -> tuple[float | None, NDArray[np.float64] | None]:
    """The collector's (loss, errors), each None if the mechanism has none."""
    loss, errors = opened.facts.get("loss"), opened.facts.get("errors")
    listed = [] if errors is None else errors
    sound = isinstance(listed, list) and all(isinstance(e, float) and e >= 0 for e in listed)
    if not sound or not isinstance(loss, float | None) or len(listed) not in (0, k * columns):
        raise InputError("the collector's errors do not fit the spec; ask its operator.")
    return loss, np.array(listed).reshape(k, columns) if listed else None
