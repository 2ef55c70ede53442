"""The meaning of a `local` spec for one record and for the result, in words and figures."""

import numpy as np

from ppodc.local_dp.job import job_of
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.published.groupings import GroupedBits
from ppodc.spec import Spec

_PUBLISHED = ("privbv", "ldpseg", "ldpk-modes")


def explain(spec: Spec, rows: int | None = None) -> tuple[list[str], list[list[str]], list[str]]:
    """(headings, rows of a table, notes) before any upload."""
    job, mechanism = job_of(spec), form_of(spec).mechanism
    report, part = form_of(spec).guarantee, mechanism.part
    n = rows or job.expected_rows
    lines = [
        ["mechanism", job.mechanism],
        ["epsilon of one record, guaranteed", str(report.guaranteed)],
    ]
    if report.guaranteed_at_delta is not None:
        lines.append(["the same, approximate", str(report.guaranteed_at_delta)])
    if report.per_attribute:
        lines.append(["epsilon of one column", f"{max(report.per_attribute):.4g}"])
    if report.claimed is not None:
        lines.append([f"claimed by its source for {report.claimed_for}", str(report.claimed)])
    lines.append(["numbers in a report", f"{part.columns} of {np.dtype(part.dtype)}"])
    if isinstance(mechanism, GroupedBits):
        shown = f"{mechanism.deviation:.3g}"
        lines.append(["deviation of a distance, in parts of a range", shown])
    notes = [str(report), *filter(None, [report.weak()])]
    if isinstance(mechanism, GroupedBits) and mechanism.blurred:
        notes.append("distances are little but noise: the clusters will be, too.")
    expected = mechanism.expectation(n, job.k) if n else None
    if expected is not None:
        lines += [
            ["points or cells", f"{expected.points:,}"],
            ["records expected", f"{n:,}"],
            ["noise, in parts of an even cluster", f"{expected.noise:.2f}"],
            ["error of a centre, in parts of the range", f"{expected.centre_error:.3f}"],
        ]
        notes.append(expected.verdict() + ".")
    elif not n:
        notes.append("say how many records there will be (--rows) to see what to expect.")
    if job.mechanism in _PUBLISHED:
        better = "codebook" if job.numeric else "joint"
        notes.append(
            f"{job.mechanism} is offered for comparison: {better} is far more accurate at the same "
            "epsilon."
        )
    return ["what", "value"], lines, notes
