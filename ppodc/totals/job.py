"""The job of a spec of the kind `totals`: what owners learn about their joint records.

A total says more the fewer records and owners it is of: of two owners each subtracts its own and
has the other's totals, and whoever knows all records but one has that one. So an owner is told only
if at least `least` of the records are not its own (where one owner has all of them, all count); how
many owners there must be, the spec says elsewhere. As with `min_size` of k-means, a
written spec without the key has no bound, which is 1, and 1 is left out of the canonical bytes.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from ppodc import kinds
from ppodc.errors import InputError
from ppodc.records.schema import Schema
from ppodc.spec import Spec, sample_head
from ppodc.toml_document import check_keys, check_whole

LEAST = 5  # the usual least count of a cell in official statistics
_ANY_NUMBER = 1  # what a spec without the key means
_MAX_LEAST = 1 << 40

SAMPLE = (
    sample_head("clinic-totals")
    + """\
[job]
kind = "totals"              # number of records, sum and mean of each column; nothing else
variance = true              # and the variance of each column
# With fewer records than this the job does not run, and an owner learns nothing if fewer of them
# are not its own: it can subtract its own records from the totals. Of two owners each learns the
# other's totals. Without this key any number will do.
least = 5
# May an auditor run one cloud's part in the job again? Both clouds then keep a record of it.
# audit = false
"""
)


@dataclass(frozen=True, slots=True)
class Job(kinds.Job):
    """Options of the job: `variance` reveals sums of squares too, `least` is of others' records."""

    kind: ClassVar[str] = "totals"

    variance: bool = True
    least: int = LEAST

    def __post_init__(self) -> None:
        check_whole(self.least, "job.least", _ANY_NUMBER, _MAX_LEAST)
        if not isinstance(self.variance, bool):
            raise InputError("job.variance must be true or false")

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        check_keys(table, "job", required=(), optional=("variance", "least"))
        return cls(**{"least": _ANY_NUMBER, **table})

    @property
    def threshold(self) -> tuple[str, int]:
        return "least", self.least

    @property
    def unaudited(self) -> str:
        return ""

    def describe(self) -> list[str]:
        """Sentences on what is revealed, to whom and how often."""
        variance = ", sum of squares and variance" if self.variance else ""
        return [
            "Every owner with records in it learns, once, the number of all records and of each "
            f"column the sum and mean{variance}.",
            *(
                [f"Where fewer than {self.least} records are not its own, it learns no sum."]
                if self.least > 1
                else []
            ),
            *(["The totals of one record are that record."] if self.missing_threshold else []),
            "The clouds learn the number of records and nothing of the sums.",
        ]

    def check(self, schema: Schema) -> None:
        """Any columns of numbers will do."""
        schema.require_numbers()

    def to_dict(self) -> dict[str, Any]:
        least = {} if self.least == _ANY_NUMBER else {"least": self.least}
        return {"variance": self.variance, **least}

    def check_size(self, schema: Schema, m: int) -> None:
        """Refuse too few records, and totals that could pass 2^64, the modulus they are under."""
        if m < self.least:
            raise InputError(
                f"the job needs at least {self.least} records, but there are {m}. Wait for more "
                "uploads."
            )
        largest = m * schema.ub ** (2 if self.variance else 1)
        if largest >= 1 << 64:
            raise InputError(
                f"the totals of {m} records with ub = {schema.ub} may not fit in 64 bits. Use a "
                "smaller ub, or variance = false."
            )


def job_of(spec: Spec) -> Job:
    """The job of a spec of this kind."""
    if not isinstance(spec.job, Job):
        raise InputError(f"dataset {spec.name!r} is of the kind {spec.job.kind!r}, not totals.")
    return spec.job
