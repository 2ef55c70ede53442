"""The job of a spec of the kind `local`: how records are perturbed, and what is made of them."""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar, get_args

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.ldp.bit_reports import ldpseg, privbv
from ppodc.ldp.categories import AttributeResponse, check_sizes
from ppodc.ldp.chances import check_epsilon
from ppodc.ldp.codebook import MAX_POINTS, Codebook, points_for
from ppodc.ldp.mechanism import EachAttribute, FlippedBits, JointCell, Mechanism, NearestPoint
from ppodc.ldp.mechanism_names import NUMERIC, MechanismName
from ppodc.ldp.oracles import MAX_CELLS, oracle
from ppodc.records.schema import Schema
from ppodc.records.toml_document import check_keys, check_whole
from ppodc.service.store.uploads import MAX_ROWS
from ppodc.spec import Spec

MAX_CLUSTERS = 512
MAX_SEED = (1 << 63) - 1
MAX_SPEC_BITS = 64

SAMPLE = """\
# A ppodc dataset under local differential privacy: every record is perturbed by its owner, and one
# collector, who is not trusted, clusters the reports. Every owner must use this very file: its
# digest is the identity of the dataset.

name = "survey"              # letters, digits, '.', '_' and '-'

[schema]
ub = 1000                    # values become whole numbers 0..ub (at most 1048576)
# The columns in the order of the owners' tables. low and high are public; a value outside them is
# refused. Choose them by meaning, not from the data: bounds from data give the data away.
columns = [
    { name = "age", low = 0, high = 120 },
    { name = "pressure", low = 40, high = 260 },
]

[job]
kind = "local"
# "codebook": numbers; each record tells its nearest public point. The best for numbers.
# "joint": categories, written as whole numbers low..high; each record tells its joint cell.
# "privbv", "ldpseg" (numbers), "ldpk-modes" (categories): the published systems with an honest
# budget; far less accurate, for comparison.
mechanism = "codebook"
epsilon = 2.0                # of one record, with all its columns and all it ever reports here
k = 5                        # clusters, 1 to 512
expected_rows = 100000       # of all owners; codebook: chooses the number of points
# points = 256               # codebook: instead of expected_rows
# bits = 8                   # privbv, ldpseg: bits for each value, 1 to 64
seed = 1                     # public: points, thresholds and starts follow from it
"""


@dataclass(frozen=True, slots=True)
class Job:
    """What to compute; `epsilon` is guaranteed for one record."""

    kind: ClassVar[str] = "local"

    k: int
    epsilon: float
    mechanism: MechanismName = "codebook"
    expected_rows: int = 0
    points: int = 0
    bits: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mechanism not in get_args(MechanismName):
            known = ", ".join(get_args(MechanismName))
            raise InputError(f"job.mechanism must be one of {known}")
        check_whole(self.k, "job.k", 1, MAX_CLUSTERS)
        object.__setattr__(self, "epsilon", float(check_epsilon(self.epsilon, "job.epsilon")))
        check_whole(self.expected_rows, "job.expected_rows", 0, MAX_ROWS)
        check_whole(self.points, "job.points", 0, MAX_POINTS)
        check_whole(self.bits, "job.bits", 1, MAX_SPEC_BITS)
        check_whole(self.seed, "job.seed", 0, MAX_SEED)
        if self.mechanism == "codebook" and not self.points and not self.expected_rows:
            raise InputError("codebook needs job.expected_rows, or job.points")
        if self.points and self.points < self.k:
            raise InputError("job.points must be at least job.k")

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        optional = ("mechanism", "expected_rows", "points", "bits", "seed")
        check_keys(table, "job", required=("k", "epsilon"), optional=optional)
        return cls(**table)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def in_words(self) -> list[str]:
        """What is revealed, to whom and how often."""
        return [
            f"Clustering into {self.k} groups of perturbed reports by one collector, which sees "
            "the reports and no record.",
            f"Each record is reported once, by {self.mechanism}, with epsilon {self.epsilon:g}; "
            "the owner perturbs it before it leaves, and its budget is charged.",
            "Every owner with records in it, and the collector, learn the clusters that follow.",
        ]

    def check(self, schema: Schema) -> None:
        """Refuse what does not fit the columns, by building the mechanism."""
        build(self, schema)

    @property
    def numeric(self) -> bool:
        """Whether columns are numbers; else categories."""
        return self.mechanism in NUMERIC


def category_sizes(schema: Schema) -> tuple[int, ...]:
    """How many categories each column has: whole numbers low..high."""
    widths = [column.high - column.low for column in schema.columns]
    for column, width in zip(schema.columns, widths, strict=True):
        if column.low != int(column.low) or width != int(width):
            raise InputError(f"column {column.name!r}: categories are whole numbers low..high")
    return check_sizes([int(width) + 1 for width in widths])


def build(job: Job, schema: Schema) -> Mechanism:
    """The mechanism that the job and the columns fix, the same at every party."""
    columns = len(schema.columns)
    if not job.numeric:
        sizes = category_sizes(schema)
        if job.mechanism == "ldpk-modes":
            return EachAttribute(AttributeResponse.of(sizes, job.epsilon))
        if math.prod(sizes) > MAX_CELLS:
            raise InputError(f"{math.prod(sizes)} joint cells are more than {MAX_CELLS}")
        return JointCell(sizes, oracle(math.prod(sizes), job.epsilon))
    if job.mechanism == "codebook":
        points = job.points or points_for(job.expected_rows, job.k, job.epsilon)
        return NearestPoint(Codebook.of(columns, schema.ub, job.epsilon, points, job.seed))
    if job.mechanism == "ldpseg":
        return FlippedBits(ldpseg(columns, schema.ub, epsilon=job.epsilon, bits=job.bits))
    random = SecureRandom(job.seed.to_bytes(32, "big"))
    made = privbv(columns, schema.ub, epsilon=job.epsilon, bits=job.bits, random=random)
    return FlippedBits(made)


@lru_cache(maxsize=16)
def mechanism_of(spec: Spec) -> Mechanism:
    """The mechanism of a spec of this kind."""
    return build(job_of(spec), spec.schema)


def job_of(spec: Spec) -> Job:
    """The job of a spec of this kind."""
    if not isinstance(spec.job, Job):
        raise InputError(f"dataset {spec.name!r} is of the kind {spec.job.kind!r}, not local.")
    return spec.job
