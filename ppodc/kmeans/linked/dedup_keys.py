"""The keys of a k-means job that say which records of different owners are the same."""

from typing import Any

from ppodc.errors import SpecError
from ppodc.linkage.job import Job as LinkageJob
from ppodc.linkage.outputs import Shared
from ppodc.linkage.rules import SquaredDistance

SHORT = ("dedup_limit", "dedup_weights")


def parse_dedup(table: Any) -> LinkageJob | None:
    """The linkage that a job's table asks for, if any."""
    if "linkage" in table:
        if any(key in table for key in SHORT):
            raise SpecError("job.dedup_limit is short for a table [linkage]: give one of them")
        if not isinstance(table["linkage"], dict):
            raise SpecError("linkage must be a table")
        return LinkageJob.from_dict({"output": "shared", **table["linkage"]})
    if not any(key in table for key in SHORT):
        return None
    if "dedup_limit" not in table or not isinstance(table.get("dedup_weights"), list):
        raise SpecError("job.dedup_limit needs job.dedup_weights, a list with one for each column")
    rule = SquaredDistance(tuple(table["dedup_weights"]), table["dedup_limit"])
    return LinkageJob(rule, Shared())


def dedup_to_dict(job: LinkageJob) -> dict[str, Any]:
    """The keys that read as this linkage."""
    table = job.to_dict()
    if (table["rule"], table["blocks"]) == ("sse", "none"):
        return {"dedup_limit": table["limit"], "dedup_weights": table["weights"]}
    return {"linkage": table}
