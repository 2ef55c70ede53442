"""The job of a spec of the kind `local`: how records are perturbed, and what is made of them."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from ppodc import kinds
from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import OptionError, SpecError
from ppodc.local_dp.categories import AttributeResponse, check_sizes
from ppodc.local_dp.codebook import MAX_POINTS, Codebook, points_for
from ppodc.local_dp.joint_cells import JointCells, SampledCells
from ppodc.local_dp.mechanism import (
    NUMERIC,
    EachAttribute,
    FlippedBits,
    Mechanism,
    MechanismName,
    NearestPoint,
)
from ppodc.local_dp.mixed import Layout, NearestMixed
from ppodc.local_dp.oracles import MAX_CELLS, oracle
from ppodc.local_dp.published.bit_reports import half_range, ldpseg, privbv
from ppodc.local_dp.published.groupings import GroupedBits, Grouping
from ppodc.local_dp.published.kcluster import MATRIX_ROWS
from ppodc.local_dp.published.settings import (
    Columns,
    PrivBVSetting,
    Setting,
    fits,
    setting_of,
    to_dict,
)
from ppodc.privacy.chances import check_epsilon
from ppodc.records.schema import Schema
from ppodc.service.sealed_uploads import MAX_ROWS
from ppodc.spec import Spec
from ppodc.toml_document import check_keys, check_whole, double

MAX_CLUSTERS = 512
MAX_SEED = (1 << 63) - 1
MAX_SPEC_BITS = 64
MISMATCH = 0.5

SAMPLE = """\
# A ppodc dataset under local differential privacy: every record is perturbed by its owner, and one
# collector, who is not trusted, clusters the reports. Every owner must use this very file: its
# digest is the identity of the dataset.

name = "survey"              # letters, digits, '.', '_' and '-'

[schema]
ub = 1000                    # values become whole numbers 0..ub (at most 1048576)
# Owners' tables name these columns, in any order. low and high are public; a value outside them is
# refused. Choose them by meaning, not from the data: bounds from data give the data away.
columns = [
    { name = "age", low = 0, high = 120 },
    { name = "pressure", low = 40, high = 260 },
]
# A column of categories: { name = "smoker", values = ["no", "former", "yes"] }

[job]
kind = "local"
# "codebook": numbers; each record tells its nearest public point. The best for numbers.
# "joint": categories (values, or whole numbers low..high); each record tells its joint cell.
# "mixed": numbers and columns of words together (k-prototypes), as codebook.
# "privbv", "ldpseg" (numbers), "ldpk-modes" (categories): the published systems with an honest
# budget; far less accurate, for comparison.
mechanism = "codebook"
epsilon = 2.0                # of one record, with all its columns and all it ever reports here
k = 5                        # clusters, 1 to 512
expected_rows = 100000       # of all owners; codebook, mixed, and joint beyond 2^22 cells: chooses
                             # the number of points
# mismatch = 0.5             # mixed: two words count like numbers so many parts of a range apart
# points = 256               # instead of expected_rows
# bits = 8                   # privbv, ldpseg: bits for each value, 1 to 64
# grouping = "matrix"        # privbv: instead of the linear form kCluster on all pairs of reports,
#                            # "hierarchical" or "dbscan", up to 20,000 reports; owners get the
#                            # labels of theirs
# radius = 0.06              # dbscan, which tells at most k clusters: in parts of a range
# least = 12                 # dbscan: records within the radius that make a core record
# as_published = { b = 1.0, s = 1000, t = 0.5 }    # privbv, instead of epsilon and bits, or
# as_published = { epsilon = 1.0, s = 10, flips = "moue" }    # ldpseg (or "uer"), or
# as_published = { epsilon = 1.0 }                 # ldpk-modes: what the sources print, which is
#                            # not what a record spends; who agrees must type out what it does
seed = 1                     # public: points, thresholds and starts follow from it
"""


@dataclass(frozen=True, slots=True)
class Job(kinds.Job):
    """The job of a `local` spec; `epsilon` is guaranteed for one record.

    With `as_published` there is none: what is guaranteed follows from the published setting.
    """

    kind: ClassVar[str] = "local"

    k: int
    epsilon: float | None = None
    mechanism: MechanismName = "codebook"
    expected_rows: int = 0
    points: int = 0
    bits: int = 8
    seed: int = 0
    as_published: Setting | None = None
    mismatch: float | None = None  # of mixed alone
    grouping: Grouping | None = None  # of privbv alone

    def __post_init__(self) -> None:
        if self.mechanism not in get_args(MechanismName):
            known = ", ".join(get_args(MechanismName))
            raise SpecError(f"job.mechanism must be one of {known}")
        check_whole(self.k, "job.k", 1, MAX_CLUSTERS)
        self._check_privacy()
        check_whole(self.expected_rows, "job.expected_rows", 0, MAX_ROWS)
        check_whole(self.points, "job.points", 0, MAX_POINTS)
        check_whole(self.bits, "job.bits", 1, MAX_SPEC_BITS)
        check_whole(self.seed, "job.seed", 0, MAX_SEED)
        needs_points = self.mechanism in ("codebook", "mixed")
        if needs_points and not self.points and not self.expected_rows:
            raise SpecError(f"{self.mechanism} needs job.expected_rows, or job.points")
        if self.points and self.points < self.k:
            raise SpecError("job.points must be at least job.k")
        self._check_mismatch()
        if self.grouping is not None:
            if self.mechanism != "privbv":
                raise SpecError(f"job.grouping is for privbv, not for {self.mechanism}")
            if self.expected_rows > MATRIX_ROWS:
                raise SpecError(f"job.grouping takes at most {MATRIX_ROWS} reports")

    def _check_mismatch(self) -> None:
        if self.mechanism != "mixed":
            if self.mismatch is not None:
                raise SpecError(f"job.mismatch is for mixed, not for {self.mechanism}")
            return
        given = MISMATCH if self.mismatch is None else self.mismatch
        object.__setattr__(self, "mismatch", double(given, "job.mismatch"))
        if not 0.01 <= double(given, "job.mismatch") <= 10:
            raise SpecError("job.mismatch must be from 0.01 to 10 parts of a number's range")

    def _check_privacy(self) -> None:
        if self.as_published is None:
            if self.epsilon is None:
                raise SpecError("job: missing epsilon")
            object.__setattr__(self, "epsilon", float(check_epsilon(self.epsilon, "job.epsilon")))
        elif self.epsilon is not None:
            raise SpecError("give job.epsilon or job.as_published, not both")
        elif not fits(self.as_published, self.mechanism):
            raise SpecError(f"job.as_published is not a setting of {self.mechanism}")

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        optional = ("epsilon", "mechanism", "expected_rows", "points", "bits", "seed", "mismatch")
        paired = ("grouping", "radius", "least")
        check_keys(table, "job", required=("k",), optional=(*optional, *paired, "as_published"))
        table = dict(table)
        method, radius, least = (table.pop(key, None) for key in paired)
        if method is None and (radius is not None or least is not None):
            raise SpecError('job.radius and job.least are for grouping = "dbscan"')
        if method is not None:
            table["grouping"] = Grouping.of(method, radius, least)
        if "as_published" not in table:
            return cls(**table)
        unused = [key for key in ("points", "bits") if key in table]
        if unused:
            raise SpecError(f"job.{unused[0]} has no meaning beside job.as_published")
        setting = setting_of(table.get("mechanism", "codebook"), table["as_published"])
        return cls(**{**table, "as_published": setting})

    def to_dict(self) -> dict[str, Any]:
        common: dict[str, Any] = {"k": self.k, "mechanism": self.mechanism, "seed": self.seed}
        common["expected_rows"] = self.expected_rows
        if self.grouping is not None:
            common |= self.grouping.to_dict()
        if self.as_published is not None:
            return {**common, "as_published": to_dict(self.as_published)}
        if self.mismatch is not None:
            common["mismatch"] = self.mismatch
        return {**common, "epsilon": self.epsilon, "points": self.points, "bits": self.bits}

    def describe(self) -> list[str]:
        """Sentences on what is revealed, to whom and how often."""
        return [
            f"Clustering into {self.k} groups of perturbed reports by one collector, which sees "
            "the reports and no record.",
            f"Each record is reported once, by {self.mechanism}{self._asked}; the owner perturbs "
            "it before it leaves, and its budget is charged.",
            "Every owner with records in it, and the collector, learn the clusters that follow.",
            *self._labelled,
        ]

    @property
    def _labelled(self) -> list[str]:
        if self.grouping is None:
            return []
        return [
            f"The collector compares all pairs of reports ({self.grouping.method}); each owner "
            "learns the clusters of its own reports."
        ]

    @property
    def _asked(self) -> str:
        return " as published" if self.epsilon is None else f" with epsilon {self.epsilon:g}"

    def check(self, schema: Schema) -> None:
        """Refuse what does not fit the columns, by building the mechanism."""
        schema.refuse_texts()
        build(self, schema)

    @property
    def numeric(self) -> bool:
        """Whether all columns are numbers."""
        return self.mechanism in NUMERIC


def tops(job: Job, schema: Schema) -> NDArray[np.int64]:
    """The largest encoded value of each column; the smallest is 0."""
    sizes = column_sizes(job, schema)
    return np.array([size - 1 if size else schema.ub for size in sizes], np.int64)


def column_sizes(job: Job, schema: Schema) -> tuple[int, ...]:
    """The number of categories of each column; 0 for a number."""
    if job.numeric:
        return (0,) * len(schema.columns)
    if job.mechanism == "mixed":
        return tuple(len(column.values) for column in schema.columns)
    return category_sizes(schema)


def category_sizes(schema: Schema) -> tuple[int, ...]:
    """The number of categories of each column: whole numbers low..high."""
    widths = [column.high - column.low for column in schema.columns]
    for column, width in zip(schema.columns, widths, strict=True):
        if column.low != int(column.low) or width != int(width):
            raise SpecError(f"column {column.name!r}: categories are whole numbers low..high")
    return check_sizes([int(width) + 1 for width in widths])


def build(job: Job, schema: Schema) -> Mechanism:
    """The mechanism that the job and the columns fix, the same at every party."""
    if job.numeric:
        schema.require_numbers()
    sizes = column_sizes(job, schema)
    columns = len(schema.columns)
    if job.epsilon is None:
        if job.as_published is None:
            raise SpecError("job: missing epsilon")
        known = Columns(columns, schema.ub, sizes, job.expected_rows, job.seed)
        return _grouped(job, job.as_published.build(known), schema.ub)
    if job.mechanism == "mixed":
        layout = Layout.of(sizes, schema.ub, job.mismatch or MISMATCH)
        points = job.points or points_for(job.expected_rows, job.k, job.epsilon)
        mixed = NearestMixed.of(layout, job.epsilon, points, job.seed)
        if len(mixed.book.points) < job.k:
            raise SpecError(f"{points} points are too few for these words: give more job.points")
        return mixed
    if not job.numeric:
        return _of_categories(job, sizes, job.epsilon)
    if job.mechanism == "codebook":
        points = job.points or points_for(job.expected_rows, job.k, job.epsilon)
        return NearestPoint(Codebook.of(columns, schema.ub, job.epsilon, points, job.seed))
    if job.mechanism == "ldpseg":
        return FlippedBits(ldpseg(columns, schema.ub, epsilon=job.epsilon, bits=job.bits))
    random = SecureRandom.public(job.seed)
    made = privbv(columns, schema.ub, epsilon=job.epsilon, bits=job.bits, random=random)
    return _grouped(job, FlippedBits(made), schema.ub)


def _grouped(job: Job, mechanism: Mechanism, ub: int) -> Mechanism:
    if job.grouping is None or not isinstance(mechanism, FlippedBits):
        return mechanism
    given = job.as_published
    t = given.reach(ub) if isinstance(given, PrivBVSetting) else half_range(ub)
    return GroupedBits(mechanism.reports, job.grouping, t)


def _of_categories(job: Job, sizes: tuple[int, ...], epsilon: float) -> Mechanism:
    if job.mechanism == "ldpk-modes":
        return EachAttribute(AttributeResponse.of(sizes, epsilon))
    cells = math.prod(sizes)
    if cells <= MAX_CELLS:
        return JointCells(sizes, oracle(cells, epsilon))
    if not job.points and not job.expected_rows:
        raise SpecError(
            f"{cells} joint cells are more than the {MAX_CELLS} that can be counted; give "
            "job.expected_rows or job.points, so that each record tells the nearest of some points"
        )
    points = job.points or points_for(job.expected_rows, job.k, epsilon)
    return SampledCells.of(sizes, epsilon, points, job.seed)


def job_of(spec: Spec) -> Job:
    """The job of a spec of this kind."""
    if not isinstance(spec.job, Job):
        raise OptionError(f"dataset {spec.name!r} is of the kind {spec.job.kind!r}, not local.")
    return spec.job
