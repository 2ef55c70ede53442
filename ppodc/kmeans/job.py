"""The k-means job of a spec: what is to be computed, and its public numbers.

`min_size` is younger than the other keys. A written spec (TOML, canonical bytes) means what it
says: without the key there is no threshold, which is 1, and 1 is left out of the canonical bytes,
so that every older spec keeps its digest. Whoever makes a new one gets MIN_SIZE
written out: the sample has it, and so has a `Job` made in Python without saying otherwise.
`n_init`, `inertia` and a list of several k are younger still; a spec without them means one start,
no inertia and one k. A spec file without `init` means "random"; the sample and the estimator say
"k-means++".

A table [linkage] (`linked_columns`) makes records that several owners hold count once. The keys
`dedup_limit` and `dedup_weights` are older, and short for one with the rule sse and no blocks; such
a linkage is always written by them, so that it has one digest. A table [join] instead
(`ppodc.linkage.joined`) clusters the columns of several sides together.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ppodc import kinds
from ppodc.errors import OptionError, SpecError, StateError
from ppodc.kmeans.linked.columns import LinkedColumns, clustered_columns
from ppodc.kmeans.linked.dedup_keys import SHORT, dedup_to_dict, parse_dedup
from ppodc.kmeans.parameters import SILENT, Parameters, Products, Supplies
from ppodc.kmeans.row_choice import MAX_SEED
from ppodc.linkage.job import Job as LinkageJob
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.joined.join import Join
from ppodc.linkage.outputs import Shared
from ppodc.records.grid import fault, on_steps, outside
from ppodc.records.schema import Schema
from ppodc.spec import Spec, sample_head
from ppodc.toml_document import check_keys, check_whole, double, is_whole

MAX_CLUSTERS = 64
MAX_ITERATIONS = 10_000
MAX_STARTS = 100
MIN_SIZE = 5  # the usual least count of a cell in official statistics, where 3 is the lowest
_ANY_SIZE = 1  # what a spec without the key means
_MAX_MIN_SIZE = 1 << 20
_MAX_BETA = 1 << 64
_MAX_DENOMINATOR = 10**18
_BETA = re.compile(r"\d{1,30}(/\d{1,30}|(\.\d{1,30})?([eE][+-]?\d{1,2})?)")

Centres = tuple[tuple[float, ...], ...]
ByRecords = Literal["random", "k-means++"]  # the clusters start from records

SAMPLE = (
    sample_head("clinic")
    + """\
[job]
# Clusters, 1 to 64. Several in one job, for example [2, 3, 4, 5]: records are taken in once, owners
# get a result for each, and with inertia = true can choose.
k = 3
# Stop when the centres move by at most beta: the sum over all clusters of the squared distance
# between old and new centre, measured in encoded units (0..ub). 0 means: until nothing moves.
# Whole number, decimal or fraction such as "1/3".
beta = 0
max_iter = 100               # stop after this many iterations in any case, 1 to 10000
# Instead of beta and max_iter: exactly this many iterations, and no stop bit. The clouds then learn
# nothing while the job runs. Choose it where a cloud might deviate from the protocol: with each
# stop bit such a cloud learns one bit of its choice about the records. A job that has converged
# stays where it is, unless a cluster is empty.
# iterations = 30
# "k-means++": records far apart, by the seed; nobody learns which (suite shares). "random": records
# of k rows that follow from the seed. Or k public centres in real units, for example
# [[30, 36.6, 120], [50, 38.0, 140], [80, 36.9, 160]].
init = "k-means++"
seed = 1                     # public; the same seed gives the same result to the last bit
# So many starts from other records; the one of least inertia wins, and nobody learns which. Both
# clouds learn how many iterations each took. Suite shares.
# n_init = 1
labels = true                # may owners fetch the cluster of each of their own records?
# An owner learns nothing of a cluster in which fewer records than this are not its own: the size
# is reported as 0. It knows its own records and subtracts them, made-up ones too; what is left of
# a small cluster is nearly a record. Where one owner has all records, all count. Owners who put
# their results together are one owner. Without this key every cluster is revealed.
min_size = 5
# May owners learn the inertia, the sum of squared distances to the centres in units of 0..ub, over
# the clusters that are revealed? Suite shares.
# inertia = false
# How the shares suite multiplies records: "lattice" (ring-LWE, fewest bytes), "transfers" (rests on
# oblivious transfer alone). "auto" takes lattices from 1000 records on, over a slow link from
# 400 on: each pair measures its link at the start, and its log says what it chose.
# products = "auto"
# "silent": supplies for a sixth of the bytes and more CPU, where the link is slow. They rest on one
# more assumption (regular LPN), to which both clouds must have consented (silent_supplies in their
# configuration), and no claim against a cloud that deviates covers them. Suite shares.
# supplies = "extension"
# May an auditor run one cloud's part in the job again? Both clouds then keep a record of it. Suite
# shares, without [linkage].
# audit = false

# A record that matches one of an owner before (in order of upload) counts once, and nobody learns
# which. Rules and blocks are those of `ppodc sample-spec --kind linkage`; columns may say what they
# are for: use = "link", "cluster" or "both" (the default; texts are for linking). Owners learn the
# number of distinct records through the cluster sizes. Suite shares.
# [linkage]
# rule = "sse"               # sum of weight * (difference)^2 over the columns that link <= limit
# weights = [1, 1, 1]        # in units of 0..ub
# limit = 0
# blocks = "none"
"""
)


def parse_beta(value: Any) -> Fraction:
    """beta from a whole number, a decimal (read by its digits: 0.1 is 1/10) or "p/q"."""
    wanted = (
        'job.beta must be from 0 to 2^64: a whole number, a decimal or a fraction such as "1/3"'
    )
    text = value
    if isinstance(value, float | Fraction) or (is_whole(value) and abs(value) <= _MAX_BETA):
        text = str(value)
    if not isinstance(text, str) or not _BETA.fullmatch(text.strip()):
        raise SpecError(wanted)
    try:
        beta = Fraction(text.strip())
    except ZeroDivisionError as error:
        raise SpecError("job.beta has the denominator 0") from error
    if beta > _MAX_BETA or beta.denominator > _MAX_DENOMINATOR:
        raise SpecError(f"job.beta must be at most 2^64, its denominator {_MAX_DENOMINATOR:.0e}")
    return beta


@dataclass(frozen=True, slots=True)
class Job(kinds.Job):
    """The k-means job of a spec. `beta` is in squared units of the encoded space 0..ub.

    An owner gets sums and size of a cluster only if `min_size` of its records are not its own.
    """

    kind: ClassVar[str] = "kmeans"

    k: int
    beta: Fraction = Fraction(0)
    max_iter: int = 100
    init: ByRecords | Centres = "random"
    seed: int = 0
    labels: bool = False
    dedup: LinkageJob | None = None  # which records of different owners are the same
    products: Products = "auto"
    min_size: int = MIN_SIZE
    n_init: int = 1
    inertia: bool = False
    ks: tuple[int, ...] = ()  # several numbers of clusters, of which k is the last; (): k alone
    iterations: int | None = None  # exactly this many, without a stop test; None: until it stops
    join: Join | None = None  # the columns of several sides, of the rows that all of them have
    supplies: Supplies = "extension"
    sizes: bool = True  # False: centres in whole steps, and nobody learns how many rows are joined

    def __post_init__(self) -> None:
        check_whole(self.k, "job.k", 1, MAX_CLUSTERS)
        for k in self.ks:
            check_whole(k, "each of job.k", 1, MAX_CLUSTERS)
        if self.ks and (self.ks[-1] != self.k or list(self.ks) != sorted(set(self.ks))):
            raise SpecError("several of job.k must be different and in ascending order")
        check_whole(self.n_init, "job.n_init", 1, MAX_STARTS)
        if self.iterations is not None:
            check_whole(self.iterations, "job.iterations", 1, MAX_ITERATIONS)
            object.__setattr__(self, "max_iter", self.iterations)
            object.__setattr__(self, "beta", Fraction(0))
        check_whole(self.max_iter, "job.max_iter", 1, MAX_ITERATIONS)
        check_whole(self.seed, "job.seed", 0, MAX_SEED)
        check_whole(self.min_size, "job.min_size", _ANY_SIZE, _MAX_MIN_SIZE)
        if not isinstance(self.labels, bool):
            raise SpecError("job.labels must be true or false")
        if not isinstance(self.inertia, bool):
            raise SpecError("job.inertia must be true or false")
        if self.products not in get_args(Products):
            raise SpecError(f"job.products must be one of {', '.join(get_args(Products))}")
        if self.supplies not in get_args(Supplies):
            raise SpecError(f"job.supplies must be one of {', '.join(get_args(Supplies))}")
        if self.dedup is not None and self.dedup.output != Shared():
            raise SpecError('linkage.output can only be "shared": k-means tells no links')
        if self.join is not None:
            self._check_join()
        if not isinstance(self.sizes, bool) or not (self.sizes or self.join is not None):
            raise SpecError("job.sizes must be true, or false with a table [join]")
        object.__setattr__(self, "beta", parse_beta(self.beta))
        object.__setattr__(self, "init", _parse_init(self.init, self.k))
        if not self.from_records and (self.n_init > 1 or self.ks):
            raise SpecError(
                "job.init gives public centres: that is one start with one k. "
                'Use init = "k-means++" for n_init above 1 or several of job.k'
            )

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        optional = ("beta", "max_iter", "init", "seed", "labels", "products", "min_size")
        later = ("n_init", "inertia", "iterations", "sizes", "supplies")
        dedup = (*SHORT, "linkage")
        known = (*optional, *later, *dedup, "join")
        check_keys(table, "job", required=("k",), optional=known)
        own = {key: value for key, value in table.items() if key not in dedup}
        if "iterations" in own and ("max_iter" in own or "beta" in own):
            raise SpecError(
                "job.iterations fixes how many iterations there are. Leave out max_iter and beta"
            )
        own |= _parse_k(table["k"])
        if "join" in table:
            own["join"] = Join.from_dict(table["join"])
        return cls(**{"min_size": _ANY_SIZE, **own}, dedup=parse_dedup(table))

    def _check_join(self) -> None:
        """Refuse what does not go with a join."""
        if self.dedup is not None:
            raise SpecError("a job with [join] takes no [linkage] and no dedup_limit")
        if self.labels and not self.sizes:
            raise SpecError(
                "job.labels would tell how many rows are joined: leave them out, or sizes = false"
            )
        if self.inertia and not self.sizes:
            raise SpecError("job.inertia would tell the sizes: leave it out, or sizes = false")

    @property
    def rearranged(self) -> bool:
        """Whether owners send rows in another order than they have them, with dummies."""
        inside = self.dedup if self.join is None else self.join.linkage
        return inside is not None and inside.rearranged

    @property
    def clusters(self) -> tuple[int, ...]:
        """The numbers of clusters that are asked for, ascending."""
        return self.ks or (self.k,)

    @property
    def from_records(self) -> bool:
        """Whether the clusters start from records and not from public centres."""
        return isinstance(self.init, str)

    def to_dict(self) -> dict[str, Any]:
        public = self.init if isinstance(self.init, str) else [list(row) for row in self.init]
        later: dict[str, Any] = {}  # left out where they say what specs without them mean
        if self.dedup is not None:
            later |= dedup_to_dict(self.dedup)
        if self.join is not None:
            later["join"] = self.join.to_dict()
        if not self.sizes:
            later["sizes"] = False
        if self.products != "auto":
            later["products"] = self.products
        if self.silent:
            later["supplies"] = self.supplies
        if self.min_size != _ANY_SIZE:
            later["min_size"] = self.min_size
        if self.n_init > 1:
            later["n_init"] = self.n_init
        if self.inertia:
            later["inertia"] = True
        return {
            "k": list(self.ks) if self.ks else self.k,
            **self._ending(),
            "init": public,
            "seed": self.seed,
            "labels": self.labels,
            **later,
        }

    def _ending(self) -> dict[str, Any]:
        """The keys that say when a run ends."""
        if self.iterations is not None:
            return {"iterations": self.iterations}
        return {"beta": str(self.beta), "max_iter": self.max_iter}

    @property
    def threshold(self) -> tuple[str, int]:
        return "min_size", self.min_size

    @property
    def silent(self) -> bool:
        return self.supplies == "silent"

    @property
    def unaudited(self) -> str:
        links = self.dedup is not None or self.join is not None
        return "k-means that links or joins records cannot be audited" if links else ""

    def describe(self) -> list[str]:
        """Sentences on what is revealed, to whom and how often."""
        labels = "the cluster of each of its own records" if self.labels else "no record's cluster"
        whose = "records of other owners" if self.join is None else "joined rows"
        revealed = f"with at least {self.min_size} {whose}"
        revealed = revealed if self.min_size > 1 else "of any size"
        inertia = f" and the inertia of the clusters {revealed}" if self.inertia else ""
        several = ", for each number of clusters" if self.ks else ""
        counts = " or ".join(map(str, self.clusters))
        return [
            f"k-means with {counts} clusters, from {self._start_in_words()}, "
            f"{'at most' if self.iterations is None else 'exactly'} {self.max_iter} iterations"
            f"{' each time' * self.several_runs}.",
            "Every owner with records in it learns, at the end, the "
            f"{'size and centre' if self.sizes else 'centre'} of each "
            f"cluster {revealed}{inertia}{several}, and the number of iterations"
            f"{' of all starts together' * self.several_runs}.",
            *(
                ["The centre of a cluster of one record is that record."]
                if self.missing_threshold
                else []
            ),
            *([] if self.join is not None else [f"Every owner learns {labels}."]),
            *(
                ["A cluster too small to be revealed at one k may follow from those of another."]
                if self.ks and self.min_size > 1
                else []
            ),
            *([] if self.dedup is None else self.dedup.describe()),
            *(
                ["An entity that several owners hold counts once; owners learn how many there are."]
                if self.dedup is not None
                else []
            ),
            *([] if self.join is None else self.join.describe_clusters(self.labels, self.sizes)),
            f"Both clouds learn after each iteration whether it was the last (beta {self.beta})."
            if self.iterations is None
            else "The clouds learn nothing while the job runs: no stop bit is opened.",
            *(
                ["The start of least inertia wins. Nobody learns which it was."]
                if self.n_init > 1
                else []
            ),
            *([SILENT] if self.silent else []),
        ]

    @property
    def beyond_published(self) -> list[str]:
        """Keys whose steps only the shares suite has, as the spec says them."""
        return [
            *([] if self.dedup is None else [*dedup_to_dict(self.dedup)][:1]),
            *(["join"] if self.join is not None else []),
            *(['init = "k-means++"'] if self.init == "k-means++" else []),
            *(["n_init"] if self.n_init > 1 else []),
            *(["inertia"] if self.inertia else []),
            *(["several of k"] if self.ks else []),
            *(['supplies = "silent"'] if self.silent else []),
        ]

    @property
    def several_runs(self) -> bool:
        """Whether the iterations begin anew within the job."""
        return self.n_init > 1 or bool(self.ks)

    def _start_in_words(self) -> str:
        if not self.from_records:
            return f"{self.k} public centres that the spec gives"
        records = f"{self.k} records chosen by the public seed {self.seed}"
        if self.init == "k-means++":
            records = f"{self.k} records far apart (k-means++, public seed {self.seed}; the first "
            records += "is of a row that follows from the seed, which the others are nobody learns)"
        return records + (f", {self.n_init} times" if self.n_init > 1 else "")

    def check(self, schema: Schema) -> None:
        """Refuse initial centres, or a rule for duplicates, that do not fit the schema.

        Of equal centres all but the first stay empty: a spec could ask for that on purpose.
        """
        if self.join is not None:
            self.joined(schema)
        elif self.dedup is None:
            schema.require_numbers()
        else:
            self.linked(schema)
        centres = self.initial_centres(schema)
        if centres is not None and len(np.unique(centres, axis=0)) < len(centres):
            raise SpecError("job.init has two centres that are equal once they are encoded")

    def linked(self, schema: Schema) -> LinkedColumns | None:
        """The columns of the linkage inside the job; None if there is none."""
        return None if self.dedup is None else LinkedColumns.of(self.dedup, schema)

    def joined(self, schema: Schema) -> JoinedColumns | None:
        """The columns of the join ahead of the job; None if there is none."""
        return None if self.join is None else JoinedColumns.of(self.join, schema)

    def clustered(self, schema: Schema) -> Schema:
        """The columns whose values are clustered."""
        if self.join is not None:
            return schema.used_to("cluster")
        return schema if self.dedup is None else clustered_columns(schema)

    def initial_centres(self, schema: Schema) -> NDArray[np.int64] | None:
        """The public initial centres in encoded units, or None if records are chosen instead."""
        if isinstance(self.init, str):
            return None
        clustered = self.clustered(schema)
        columns = len(clustered.columns)
        if any(len(centre) != columns for centre in self.init):
            raise SpecError(f"each centre of job.init must have {columns} values, one per column")
        values = np.array(self.init, np.float64)
        for h, s in np.argwhere(outside(values, clustered)):
            column = clustered.columns[s]
            raise SpecError(
                f"job.init: centre {h + 1}, column {column.name!r}: {fault(values[h, s], column)}"
            )
        return on_steps(values, clustered)

    def parameters(self, schema: Schema, m: int) -> Parameters:
        """The public numbers of the job for m records; beta stays in squared encoded units."""
        least = self.k if self.from_records else 1
        if m < least:
            raise StateError(f"the job needs at least {least} records, but there are {m}")
        columns = len(self.clustered(schema).columns)
        return Parameters(
            m, columns, self.k, schema.ub, self.beta, self.min_size, products=self.products,
            stops=self.iterations is None, supplies=self.supplies,
        )  # fmt: skip


def _parse_k(k: Any) -> dict[str, Any]:
    """job.k, one number or a list of several; `Job` checks them."""
    if not isinstance(k, list):
        return {"k": k}
    if len(k) < 2:
        raise SpecError("job.k must be a whole number or a list of at least two")
    return {"k": k[-1], "ks": tuple(k)}


def _parse_init(init: Any, k: int) -> ByRecords | Centres:
    if init == "random" or init == "k-means++":
        chosen: ByRecords = init
        return chosen
    if not isinstance(init, list | tuple) or len(init) != k:
        raise SpecError(
            f'job.init must be "k-means++", "random" or a list of {k} centres, as many as job.k'
        )
    for centre in init:
        if not isinstance(centre, list | tuple):
            raise SpecError("each centre of job.init must be a list of numbers, one per column")
    what = "a value of job.init"
    return tuple(tuple(double(x, what) + 0.0 for x in centre) for centre in init)


def job_of(spec: Spec) -> Job:
    """The job of a spec of this kind."""
    if not isinstance(spec.job, Job):
        raise OptionError(f"dataset {spec.name!r} is no k-means job but {spec.job.kind!r}.")
    return spec.job
