"""A linkage's use of an owner's privacy budget, before any upload."""

from ppodc.linkage.job import job_of
from ppodc.spec import Spec

_EXACT = (
    "Links, flags and counts are exact: owners learn from them what the spec says, and no epsilon "
    "bounds that."
)


def explain(spec: Spec, rows: int | None = None) -> tuple[list[str], list[list[str]], list[str]]:
    """(headings, rows of a table, notes) before any upload."""
    blocking = job_of(spec).blocking
    headings, lines = ["what", "value"], [["blocks", blocking.kind]]
    report = spec.form.privacy()
    if report is None:
        lines.append(["epsilon of one record, towards the clouds", "0: they learn sizes alone"])
        return headings, lines, [_EXACT]
    lines += [
        ["epsilon of one record, towards the clouds", str(report.guaranteed)],
        ["the clouds learn by it", "cells, and how many rows with dummies are in each"],
        ["charged to an owner's budget", "once for the same rows under the same rule and blocks"],
    ]
    sizes = f"{rows},{rows}" if rows else "N,N"
    return headings, lines, [_EXACT, f"Pairs and seconds: ppodc link estimate --rows {sizes}"]
