"""The job of a spec of the kind `totals`: what owners learn about their joint records."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ppodc.errors import InputError
from ppodc.records.schema import Schema
from ppodc.records.toml_document import check_keys
from ppodc.spec import Spec

SAMPLE = """\
# A ppodc dataset: its columns and the job that all owners agree to.
# Every owner must use this very file: its digest is the identity of the dataset.

name = "clinic-totals"       # letters, digits, '.', '_' and '-'

[schema]
ub = 1000                    # values become whole numbers 0..ub (at most 1048576)
# The columns in the order of the owners' tables. low and high are public; a value outside
# them is refused. Choose them by meaning, not from the data.
columns = [
    { name = "age", low = 0, high = 120 },
    { name = "temperature", low = 30.0, high = 45.0 },
    { name = "pressure", low = 40, high = 260 },
]

[job]
kind = "totals"              # number of records, sum and mean of each column; nothing else
variance = true              # and the variance of each column
"""


@dataclass(frozen=True, slots=True)
class Job:
    """Whether the sums of squares are revealed too, and with them the variances."""

    kind: ClassVar[str] = "totals"

    variance: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.variance, bool):
            raise InputError("job.variance must be true or false")

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        check_keys(table, "job", required=(), optional=("variance",))
        return cls(**table)

    def in_words(self) -> list[str]:
        """What is revealed, to whom and how often."""
        variance = ", sum of squares and variance" if self.variance else ""
        return [
            "Every owner with records in it learns, once, the number of all records and of each "
            f"column the sum and mean{variance}.",
            "The clouds learn the number of records and nothing of the sums.",
        ]

    def check(self, schema: Schema) -> None:
        """Any columns will do."""

    def to_dict(self) -> dict[str, Any]:
        return {"variance": self.variance}

    def check_size(self, schema: Schema, m: int) -> None:
        """Refuse totals that could pass 2^64, the modulus that they are shared under."""
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
