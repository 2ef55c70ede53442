"""The meaning of a [privacy] table for one record and for the centres, in figures.

How much noise there will be is public: from the spec alone everybody can tell, before any upload,
how far it will move a centre. A cluster is merged from K / k points, so its sums have the noise of
as many.
"""

import math

from ppodc.kmeans.private.job import job_of, plan_of
from ppodc.kmeans.private.noisy_kmeans import ITERATIONS, NoisePlan
from ppodc.spec import Spec

_POOR = 0.1  # error of a centre, in parts of a column's range


def explain(spec: Spec, rows: int | None = None) -> tuple[list[str], list[list[str]], list[str]]:
    """(headings, rows of a table, notes) before any upload."""
    job, plan = job_of(spec), plan_of(spec)
    lines = [
        ["mechanism", "discrete Gaussian noise of each of two clouds"],
        ["epsilon of one record, guaranteed", str(job.guarantee().guaranteed)],
        ["against", "either cloud, together with all other owners"],
        ["charged to an owner's budget", "once for each table, before the first byte leaves"],
        ["iterations, each opened once", str(plan.iterations)],
        ["rho of an iteration", f"{float(plan.rho):.4g}"],
        ["public points, merged to clusters", f"{plan.centres}, {plan.k}"],
        ["a record counts within this of a point", f"{plan.radius / plan.ub:.3f} of the ranges"],
        ["noise of a released count", f"+-{plan.count_deviation:,}"],
    ]
    if rows is None:
        return _HEADINGS, lines, ["say how many records there will be (--rows) to see the error."]
    error, poor = centre_error(plan, rows), mostly_noise(spec, rows)
    lines += [
        ["records expected", f"{rows:,}"],
        ["noise, in parts of an even cluster", f"{_size_noise(plan, rows):.2f}"],
        ["error of a centre, in parts of the range", f"{error:.3f}"],
    ]
    verdict = poor or f"noise moves a centre by about {error:.1%} of a column's range."
    notes = [verdict]
    weak = job.guarantee().weak()
    notes += filter(None, (job.no_protection(rows), job.little_protection(rows), weak))
    return _HEADINGS, lines, notes


_HEADINGS = ["what", "value"]


def centre_error(plan: NoisePlan, rows: int) -> float:
    """The standard deviation that noise gives a coordinate of an even cluster's centre."""
    points = plan.centres / plan.k
    return math.sqrt(2 * plan.sum_variance * points) / (rows / plan.k) / plan.ub


def _size_noise(plan: NoisePlan, rows: int) -> float:
    return math.sqrt(2 * plan.count_variance * plan.centres / plan.k) / (rows / plan.k)


def mostly_noise(spec: Spec, rows: int) -> str:
    """Why this many records are too few, or nothing if they are enough."""
    plan = plan_of(spec)
    error = centre_error(plan, rows)
    if rows / plan.centres >= plan.least_count and error <= _POOR:
        return ""
    help_most = "more records, a larger epsilon or fewer clusters"
    if plan.iterations > ITERATIONS:
        help_most += f", or fewer than {plan.iterations} iterations, which share epsilon,"
    return (
        f"too few records for this epsilon: {rows:,} give centres that are mostly noise (about "
        f"{error:.0%} of a column's range); {help_most} help."
    )
