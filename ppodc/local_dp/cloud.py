"""The collector's side of a local job: cloud 1 alone clusters the reports."""

from typing import Any

import numpy as np

from ppodc.errors import StateError
from ppodc.local_dp.job import job_of
from ppodc.local_dp.kind import CLUSTERS, FRACTION, LABELS, form_of
from ppodc.local_dp.tallies import Reports
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.spec import Spec

_MOST_ERRORS = 64  # that fit into the facts of a result


def make_result(spec: Spec, reports: Reports, n: int) -> ResultShare:
    """The clusters of n reports."""
    job, mechanism = job_of(spec), form_of(spec).mechanism
    if n < job.k:
        raise StateError(f"the job needs at least {job.k} records, but there are {n}")
    found = mechanism.collect(reports, n, job.k, job.seed)
    table = np.concatenate([found.centres, found.sizes[:, None]], axis=1)
    values = np.rint(np.maximum(table, 0.0) * FRACTION).astype(np.uint64)
    report = form_of(spec).guarantee
    facts: dict[str, Any] = {"records": n, "guaranteed": report.guaranteed.epsilon}
    if found.stability is not None:
        facts["loss"] = round(found.stability.loss, 4)
        errors = found.stability.errors.reshape(-1)
        if errors.size <= _MOST_ERRORS:
            facts["errors"] = np.round(errors, 2).tolist()
    if report.claimed is not None:  # never alone
        facts |= {"claimed": report.claimed.epsilon, "claim_holds": report.claim_holds}
    rows = {}
    if found.labels is not None:
        rows[LABELS] = OutputShare.of_words((found.labels + 1).astype(np.uint64))
    return ResultShare(facts, {CLUSTERS: OutputShare.of_words(values.reshape(-1))}, rows)
