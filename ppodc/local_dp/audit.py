"""An audit: two far records, many reports of each, and how well a test tells them apart.

Any test with true positive rate a and false positive rate b shows epsilon >= ln(a / b). The test is
the exact likelihood ratio of the mechanism's reports, cut where it shows most on one half of the
reports; the other half is counted, and both rates are taken at their 95 % Clopper-Pearson bounds.
So the bound holds for any mechanism, right or wrong: an honest one never shows more than it
guarantees (except in 1 of 20 audits), a wrong claim is shown wrong.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import OptionError
from ppodc.local_dp.job import job_of, tops
from ppodc.local_dp.joint_cells import Cells
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.mechanism import EachAttribute, FlippedBits, Mechanism, NearestPoint
from ppodc.local_dp.published.packed_bits import unpack
from ppodc.local_dp.report_streams import ReportKey, row_ids
from ppodc.privacy.concentrated import binomial_tail, halved
from ppodc.spec import Spec

_MISTAKE = 0.05
_BATCH_BYTES = 1 << 20
Reals = NDArray[np.float64]


def audit(spec: Spec, trials: int, key: ReportKey | None = None) -> float:
    """A lower bound of epsilon for one record, from `trials` reports of each of two records."""
    high = tops(job_of(spec), spec.schema)[None, :]
    return audit_mechanism(form_of(spec).mechanism, np.zeros_like(high), high, trials, key)


def audit_mechanism(
    mechanism: Mechanism,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    trials: int,
    key: ReportKey | None = None,
) -> float:
    """The audit for two given records (1, columns); a new key unless one is given."""
    key = key or ReportKey()
    scores = [
        np.concatenate(list(_batches(mechanism, record, (first, second), 2 * trials, key)))
        for record in (first, second)
    ]
    cut = _best_cut(scores[0][:trials], scores[1][:trials])
    hits = int((scores[0][trials:] >= cut).sum())
    misses = int((scores[1][trials:] >= cut).sum())
    least = lower_bound(hits, trials, _MISTAKE / 2)
    most = 1 - lower_bound(trials - misses, trials, _MISTAKE / 2)
    return max(0.0, math.log(least / most)) if least > 0 else 0.0


def _batches(
    mechanism: Mechanism,
    record: NDArray[np.int64],
    pair: tuple[NDArray[np.int64], NDArray[np.int64]],
    count: int,
    key: ReportKey,
) -> Iterator[Reals]:
    """Scores of `count` reports of one record, some megabytes of reports at a time."""
    step = max(
        1, _BATCH_BYTES // (mechanism.part.columns * np.dtype(mechanism.part.dtype).itemsize)
    )
    for start in range(0, count, step):
        rows = min(step, count - start)
        records = np.repeat(record, rows, axis=0)
        streams = key.streams(mechanism.digest(), row_ids(start, rows), records)
        yield _scores(mechanism, mechanism.perturb(records, streams), *pair)


def _best_cut(first: Reals, second: Reals) -> float:
    """The score from which on the first record is most favoured."""
    cuts = np.unique(np.concatenate([first, second]))
    if len(cuts) > 1000:
        cuts = np.quantile(cuts, np.linspace(0, 1, 1000))
    ordered = [np.sort(first), np.sort(second)]
    counts = [len(s) - np.searchsorted(s, cuts, side="left") for s in ordered]
    gains = np.log((counts[0] + 0.5) / (counts[1] + 5.0))
    return float(cuts[int(gains.argmax())])


def lower_bound(hits: int, trials: int, mistake: float) -> float:
    """Clopper-Pearson: the smallest p for which `hits` or more are not too unlikely."""
    if hits == 0:
        return 0.0
    return halved(0.0, hits / trials, lambda p: binomial_tail(trials, p, hits) < mistake)[0]


def _scores(
    mechanism: Mechanism,
    reports: NDArray[Any],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> Reals:
    """A score of each report for the first record: rising with the likelihood ratio."""
    if isinstance(mechanism, FlippedBits):
        code, per = mechanism.reports.code, mechanism.reports.part.columns
        strings = unpack(
            reports.reshape(-1, per // mechanism.reports.attributes), code.bits
        ).reshape(len(reports), -1)  # fmt: skip
        signs = [2.0 * code.encode(record).reshape(-1) - 1 for record in (first, second)]
        return np.asarray(strings @ (signs[0] - signs[1]), np.float64)
    if isinstance(mechanism, EachAttribute):
        return np.asarray((reports == first).sum(axis=1) - (reports == second).sum(axis=1), float)
    if not isinstance(mechanism, NearestPoint | Cells):
        raise OptionError("there is no audit of this mechanism")
    return _oracle_scores(mechanism, reports, first, second)


def _oracle_scores(
    mechanism: NearestPoint | Cells,
    reports: NDArray[Any],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> Reals:
    """A report's score for the first record's cell, minus its score for the second's."""
    oracle = mechanism.book.oracle if isinstance(mechanism, NearestPoint) else mechanism.oracle
    cells = [mechanism.cells(record)[0] for record in (first, second)]
    if oracle.name == "grr":
        column = reports[:, 0]
        return np.asarray((column == cells[0]).astype(float) - (column == cells[1]))
    if oracle.name == "oue":
        bits = unpack(reports, oracle.cells)
        return np.asarray(bits[:, cells[0]].astype(float) - bits[:, cells[1]])
    signs = [
        1.0 - 2.0 * (np.bitwise_count(reports[:, 0] & np.uint32(cell + 1)) & 1) for cell in cells
    ]
    return np.asarray(signs[0] - signs[1])
