"""The job of a k-means spec with a [privacy] table: centres under differential privacy.

In a spec file the job is k-means and [privacy] makes it this one; the canonical bytes name the kind
`private-kmeans`. The public numbers of noise, radius and starting points all follow from the spec
(`ppodc.kmeans.private.noisy_kmeans.NoisePlan`).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ppodc import kinds
from ppodc.errors import OptionError, SpecError
from ppodc.kmeans.job import MAX_CLUSTERS
from ppodc.kmeans.private.noisy_kmeans import CENTRES_EACH, NoisePlan
from ppodc.kmeans.row_choice import MAX_SEED
from ppodc.privacy.guarantee import Guarantee, PrivacyReport
from ppodc.records.schema import Schema
from ppodc.spec import Spec, sample_head
from ppodc.toml_document import check_keys, check_whole, double

DELTA = 1e-6
_MOST_ITERATIONS = 100
_MOST_CENTRES = 256
_LARGEST_EPSILON = 1000.0
_LEAST_EPSILON = 1e-6
_LEAST_DELTA = 1e-30
_NEAR = 0.1  # of one over the records: a delta from there on is told

SAMPLE = (
    sample_head("clinic-private")
    + """\
[job]
k = 3                        # clusters, 1 to 64
seed = 1                     # public; of the starting points

# k-means under differential privacy: each cloud adds noise to its own share of every sum and count,
# and only noisy values are ever opened. Suite shares.
[privacy]
epsilon = 1.0                # of one record, all columns, against a cloud and all other owners
delta = 1e-6                 # well below 1 / (number of records)
# iterations = 4             # fixed and public, epsilon is split among them; if left out 3 up to
#                            # two columns, else 4
# centres = 9                # public starting points, merged to k at the end; 3 k if left out
"""
)


@dataclass(frozen=True, slots=True)
class NoisyJob(kinds.Job):
    """k clusters at (epsilon, delta) of one record; without `iterations` the usual number.

    `centres` = 0 means 3 k.
    """

    kind: ClassVar[str] = "private-kmeans"

    k: int
    epsilon: float
    delta: float = DELTA
    iterations: int | None = None
    centres: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(self.k, "job.k", 1, MAX_CLUSTERS)
        check_whole(self.seed, "job.seed", 0, MAX_SEED)
        if self.iterations is not None:
            check_whole(self.iterations, "privacy.iterations", 1, _MOST_ITERATIONS)
        if not self.centres:
            object.__setattr__(self, "centres", CENTRES_EACH * self.k)
        check_whole(self.centres, "privacy.centres", self.k, _MOST_CENTRES)
        object.__setattr__(self, "epsilon", double(self.epsilon, "privacy.epsilon"))
        object.__setattr__(self, "delta", double(self.delta, "privacy.delta"))
        if not _LEAST_EPSILON <= self.epsilon <= _LARGEST_EPSILON:
            raise SpecError(
                f"privacy.epsilon must be from {_LEAST_EPSILON:g} to {_LARGEST_EPSILON:g}; usual "
                "are 0.1 to 10"
            )
        if not _LEAST_DELTA <= self.delta < 1:
            raise SpecError(
                f"privacy.delta must be at least {_LEAST_DELTA:g} and below 1; choose it well "
                "below 1 / (number of records)"
            )

    @classmethod
    def from_dict(cls, table: Any) -> "NoisyJob":
        """From the [job] table with the [privacy] table in it."""
        if "privacy" not in table:
            raise SpecError("a job of the kind 'private-kmeans' needs a table [privacy]")
        own = {key: value for key, value in table.items() if key != "privacy"}
        check_keys(own, "job of a spec with [privacy]", required=("k",), optional=("seed",))
        check_keys(
            table["privacy"],
            "privacy",
            required=("epsilon", "delta"),
            optional=("iterations", "centres"),
        )
        return cls(**own, **table["privacy"])

    def to_dict(self) -> dict[str, Any]:
        privacy = {"epsilon": self.epsilon, "delta": self.delta, "centres": self.centres}
        if self.iterations is not None:
            privacy["iterations"] = self.iterations
        return {"k": self.k, "seed": self.seed, "privacy": privacy}

    def check(self, schema: Schema) -> None:
        """Any columns of numbers will do."""
        schema.require_numbers()

    def no_protection(self, rows: int) -> str:
        """Why delta is too large for this many records; empty if it is not."""
        if self.delta * rows < 1:
            return ""
        return (
            f"delta {self.delta:g} is no protection for {rows:,} records: to publish one of them "
            "would keep it too. Choose it well below one over their number."
        )

    def little_protection(self, rows: int) -> str:
        """Say of a delta that it is not far below one over this many records; empty if it is."""
        if not _NEAR <= self.delta * rows < 1:
            return ""
        return (
            f"delta {self.delta:g} is not far below one over {rows:,} records: the guarantee may "
            f"fail with that probability. Choose it below {_NEAR / rows:.2g}."
        )

    def check_rows(self, rows: int) -> None:
        """Refuse more records than delta protects."""
        if told := self.no_protection(rows):
            raise SpecError(told)

    def doubt(self, owners: int) -> str:
        """Say of an epsilon that it is no protection; refuse such a delta for the fewest records.

        The job runs with a record of each of this many owners at least, and one for each cluster.
        """
        self.check_rows(max(2, self.k, owners))
        return self.guarantee().weak()

    def guarantee(self) -> PrivacyReport:
        """The guarantee for one record with all its columns."""
        return PrivacyReport(Guarantee(self.epsilon, self.delta), ())

    def describe(self, iterations: int) -> list[str]:
        """Sentences on what is revealed, to whom and how often."""
        weak = self.guarantee().weak()
        return [
            f"k-means with {self.k} clusters under differential privacy, from {self.centres} "
            f"public points, exactly {iterations} iterations.",
            f"Privacy of one record, replaced by any other: epsilon {self.epsilon:g}, delta "
            f"{self.delta:g}, for all that is revealed in the whole job, against either cloud "
            "together with any other owners. It is spent once: the job runs once.",
            f"This delta protects fewer than {math.ceil(1 / self.delta):,} records. With more the "
            "job does not run.",
            *([weak] if weak else []),
            "Both clouds learn after each iteration the sum and count of the records near each "
            "point, with noise of both in it (of which each knows its own), and nothing else.",
            "Every owner with records in it learns, at the end, the points and noisy counts of the "
            "last iteration, and so the clusters; it finds the labels of its own records itself.",
        ]


def job_of(spec: Spec) -> NoisyJob:
    """The job of a spec of this kind."""
    if not isinstance(spec.job, NoisyJob):
        raise OptionError(f"dataset {spec.name!r} is of the kind {spec.job.kind!r}, not private.")
    return spec.job


def plan_of(spec: Spec) -> NoisePlan:
    """The public numbers of its noise, alike at all parties."""
    job, schema = job_of(spec), spec.schema
    return NoisePlan(
        k=job.k,
        columns=len(schema.columns),
        ub=schema.ub,
        epsilon=job.epsilon,
        delta=job.delta,
        iterations=job.iterations or 0,
        centres=job.centres,
        seed=job.seed,
    )
