"""The linkage inside a k-means job: which columns it compares, where those to cluster stand.

A spec with a table [linkage] says of each column what it is for (`use`): to link records, to
cluster them, or both. Texts are for linking. The linkage is a job of its own over these columns,
with the upload form, the blocks and the matchers of `ppodc.linkage`; an uploaded row is a row of
that linkage with the values to cluster behind it. Under the rule sse both are the same numbers
0..ub: there the values to cluster are sent once, and stand among those that are compared.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.encoding import link_columns
from ppodc.linkage.job import Job
from ppodc.linkage.passes import EXTRA, extra_columns
from ppodc.linkage.rules import Fields, Rule, SquaredDistance
from ppodc.linkage.upload import upload_columns
from ppodc.records.schema import Column, Schema
from ppodc.records.toml_document import quoted
from ppodc.spec import Spec


@dataclass(frozen=True, slots=True)
class LinkedColumns:
    """See the module; `spec` is the linkage alone."""

    spec: Spec
    job: Job
    clustered: Schema
    link: int  # numbers of a row that are compared
    places: tuple[int, ...]  # of the values to cluster in an uploaded row
    width: int  # numbers of an uploaded row

    @classmethod
    def of(cls, dedup: Job, schema: Schema) -> "LinkedColumns":
        """InputError if the rule or the blocks do not fit the columns."""
        whole = Schema(tuple(_for_all(c) for c in schema.columns), schema.ub, schema.texts)
        clustered = clustered_columns(schema)
        _check_linking(dedup, schema)
        job = replace(dedup, rule=_over_all(dedup.rule, schema))
        spec = Spec("linkage", whole, job)
        link, width = link_columns(job, whole), upload_columns(job, whole)
        if isinstance(job.rule, SquaredDistance):
            places = [whole.names.index(name) for name in clustered.names]
        else:
            places = list(range(width, width + len(clustered.columns)))
            width += len(clustered.columns)
        return cls(spec, job, clustered, link, tuple(places), width)

    @property
    def behind(self) -> bool:
        """Whether the values to cluster stand behind those that are compared."""
        return self.places[0] >= self.link

    def real(self, share: NDArray[np.uint64]) -> NDArray[np.uint64] | None:
        """The column that is 0 for dummies, of rows as uploaded; None if there are none."""
        return share[:, self.link : self.link + 1] if self.job.blocking.padded else None

    def own_numbers(self, share: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The columns that say which of its owner's rows each is, of rows with dummies."""
        return share[:, self.link + 1 : self.link + EXTRA]

    def switches(self, share: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The columns that lead the rows of later passes to those of the first."""
        passes = self.job.blocking.passes
        first = self.link + EXTRA + passes - 1
        return share[:, first : self.link + extra_columns(passes)]


def linkage_of(spec: Spec) -> Spec:
    """The linkage that a spec asks for: its job, or the one inside its k-means job."""
    inside = getattr(spec.job, "dedup", None)
    return spec if inside is None else LinkedColumns.of(inside, spec.schema).spec


def clustered_columns(schema: Schema) -> Schema:
    """The columns whose values are clustered."""
    if all(column.use == "link" for column in schema.columns):
        raise InputError("no column is there to cluster: give one of numbers without use = 'link'")
    return schema.used_to("cluster")


def _for_all(column: Column) -> Column:
    return replace(column, use="both")


def _over_all(rule: Rule, schema: Schema) -> Rule:
    """A rule over the columns that link as one over all: the others weigh nothing."""
    if not isinstance(rule, SquaredDistance):
        return rule
    linking = [column.use != "cluster" for column in schema.columns]
    rule.check_columns(sum(linking), schema.ub)
    weights = iter(rule.weights)
    return SquaredDistance(tuple(next(weights) if own else 0 for own in linking), rule.limit)


def _check_linking(dedup: Job, schema: Schema) -> None:
    """Refuse a rule or blocks by columns that are there to cluster only."""
    named = [key.column for key in dedup.blocking.keys]
    if isinstance(dedup.rule, Fields):
        named += [part.column for part in dedup.rule.fields]
    wrong = [c.name for c in schema.columns if c.use == "cluster" and c.name in named]
    if wrong:
        raise InputError(
            f"columns {quoted(wrong)} are compared, and the schema says use = 'cluster': "
            "leave it out."
        )
