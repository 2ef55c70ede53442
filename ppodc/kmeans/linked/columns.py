"""The linkage inside a k-means job: which columns it compares, where those to cluster stand.

A spec with a table [linkage] says of each column what it is for (`use`): to link records, to
cluster them, or both. Texts are for linking. The linkage is a job of its own over these columns,
with the upload form, the blocks and the matchers of `ppodc.linkage`; an uploaded row is a row of
that linkage with the values to cluster behind it. Under the rule sse both are the same numbers
0..ub: there the values to cluster are sent once, and stand among those that are compared.
"""

from dataclasses import dataclass, replace

from ppodc.errors import SpecError
from ppodc.linkage.job import Job
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.row_layout import RowLayout
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from ppodc.toml_document import quoted


@dataclass(frozen=True, slots=True)
class LinkedColumns:
    """The columns of an uploaded row that is linked and clustered.

    `spec` is the linkage alone, and `layout` its columns. Values to cluster stand at `places` of a
    row of `width` numbers.
    """

    spec: Spec
    job: Job
    layout: RowLayout
    clustered: Schema
    places: tuple[int, ...]
    width: int

    @classmethod
    def of(cls, dedup: Job, schema: Schema) -> "LinkedColumns":
        """InputError if the rule or the blocks do not fit the columns."""
        schema.refuse_holders()
        whole = Schema(tuple(_for_all(c) for c in schema.columns), schema.ub, schema.texts)
        clustered = clustered_columns(schema)
        _check_linking(dedup, schema)
        job = replace(dedup, rule=dedup.rule.over_all(schema))
        spec, layout = Spec("linkage", whole, job), job.layout(whole)
        if job.rule.on_grid:
            places = [whole.names.index(name) for name in clustered.names]
            return cls(spec, job, layout, clustered, tuple(places), layout.width)
        width = layout.width + len(clustered.columns)
        return cls(spec, job, layout, clustered, tuple(range(layout.width, width)), width)

    @property
    def behind(self) -> bool:
        """Whether the values to cluster stand behind the columns of the linkage."""
        return self.width > self.layout.width


def linkage_of(spec: Spec) -> Spec:
    """The linkage that a spec asks for: its job, or the one inside its job."""
    join = getattr(spec.job, "join", None)
    if join is not None:
        return JoinedColumns.of(join, spec.schema).spec
    inside = getattr(spec.job, "dedup", None)
    return spec if inside is None else LinkedColumns.of(inside, spec.schema).spec


def clustered_columns(schema: Schema) -> Schema:
    """The columns whose values are clustered."""
    if all(column.use == "link" for column in schema.columns):
        raise SpecError("no column is there to cluster: give one of numbers without use = 'link'")
    return schema.used_to("cluster")


def _for_all(column: Column) -> Column:
    return replace(column, use="both")


def _check_linking(dedup: Job, schema: Schema) -> None:
    """Refuse a rule or blocks by columns that are there to cluster only."""
    named = [*dedup.blocking.named_columns, *dedup.rule.named_columns]
    wrong = [c.name for c in schema.columns if c.use == "cluster" and c.name in named]
    if wrong:
        raise SpecError(
            f"columns {quoted(wrong)} are compared, and the schema says use = 'cluster': "
            "leave it out."
        )
