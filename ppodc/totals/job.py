"""The job of a spec of the kind `totals`: what owners learn about their joint records.

A total says more the fewer records and owners it is of: of two owners each subtracts its own and
has the other's totals, and whoever knows all records but one has that one. So an owner is told only
if at least `least` of the records are not its own (where one owner has all of them, all count); how
many owners there must be, the spec says elsewhere. As with `min_size` of k-means, a
written spec without the key has no bound, which is 1, and 1 is left out of the canonical bytes.

With a table [join] the totals are of the joined rows, over the columns of several sides; how many
these are is secret, so `least` stands in that table and is decided on shares. `cross` reveals the
sums of products of every two columns too.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from ppodc import kinds
from ppodc.errors import OptionError, SpecError, StateError
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.joined.join import Join
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
    join: Join | None = None  # the columns of several sides, of the rows that all of them have
    cross: bool = False

    def __post_init__(self) -> None:
        if self.join is not None:
            object.__setattr__(self, "least", self.join.least)
        check_whole(self.least, "job.least", _ANY_NUMBER, _MAX_LEAST)
        if not isinstance(self.variance, bool):
            raise SpecError("job.variance must be true or false")
        if not isinstance(self.cross, bool):
            raise SpecError("job.cross must be true or false")
        if self.cross and (self.join is None or not self.variance):
            raise SpecError(
                "job.cross = true is for joined columns, with variances: it needs a table [join], "
                "and no variance = false"
            )

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        check_keys(table, "job", required=(), optional=("variance", "least", "cross", "join"))
        own = {"least": _ANY_NUMBER, **table}
        if "join" in table:
            if "least" in table:
                raise SpecError("job.least: with joined rows, least stands in the table [join]")
            own["join"] = Join.from_dict(table["join"])
        return cls(**own)

    @property
    def threshold(self) -> tuple[str, int]:
        return "least", self.least

    @property
    def unaudited(self) -> str:
        return "" if self.join is None else "totals of joined records cannot be audited"

    def describe(self) -> list[str]:
        """Sentences on what is revealed, to whom and how often."""
        variance = ", sum of squares and variance" if self.variance else ""
        if self.join is not None:
            return self._describe_joined(self.join, variance)
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

    def _describe_joined(self, join: Join, variance: str) -> list[str]:
        cross = ", and of every two columns the covariance" if self.cross else ""
        return [
            *join.describe(),
            "Every owner learns, once, the number of joined rows and of each joined column the "
            f"sum and mean{variance}{cross}.",
            *(["The totals of one row are that row."] if self.missing_threshold else []),
        ]

    def check(self, schema: Schema) -> None:
        """Refuse columns that hold no numbers or, with a join, cannot be joined."""
        if self.join is None:
            schema.require_numbers()
        else:
            JoinedColumns.of(self.join, schema)

    def joined(self, schema: Schema) -> JoinedColumns | None:
        """The columns of the join ahead of the job; None if there is none."""
        return None if self.join is None else JoinedColumns.of(self.join, schema)

    def totalled(self, schema: Schema) -> Schema:
        """The columns that are added up."""
        return schema if self.join is None else schema.used_to("cluster")

    def to_dict(self) -> dict[str, Any]:
        least = {} if self.least == _ANY_NUMBER else {"least": self.least}
        if self.join is None:
            return {"variance": self.variance, **least}
        cross = {"cross": True} if self.cross else {}
        return {"variance": self.variance, **cross, "join": self.join.to_dict()}

    def check_size(self, schema: Schema, m: int) -> None:
        """Refuse too few records, and totals that could pass 2^64, the modulus they are under."""
        if m < self.least and self.join is None:
            raise StateError(
                f"the job needs at least {self.least} records, but there are {m}. Wait for more "
                "uploads."
            )
        largest = m * schema.ub ** (2 if self.variance else 1)
        if largest >= 1 << 64:
            raise SpecError(
                f"the totals of {m} records with ub = {schema.ub} may not fit in 64 bits. Use a "
                "smaller ub, or variance = false."
            )


def job_of(spec: Spec) -> Job:
    """The job of a spec of this kind."""
    if not isinstance(spec.job, Job):
        raise OptionError(f"dataset {spec.name!r} is of the kind {spec.job.kind!r}, not totals.")
    return spec.job
