"""The job of a spec of the kind `linkage`: which records match, and what their owners learn."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from ppodc import kinds
from ppodc.errors import OptionError, SpecError
from ppodc.linkage import blocks, rules
from ppodc.linkage.blocks import Blocking, NoBlocks
from ppodc.linkage.blocks.cell_space import CellSpace
from ppodc.linkage.outputs import Links, Output, output_named
from ppodc.linkage.row_layout import RowLayout
from ppodc.linkage.rules import Rule
from ppodc.records.schema import Schema
from ppodc.spec import Spec

_OWN = ("output", "max_links")
SAMPLE = """\
# A ppodc dataset: its columns and the job that all owners agree to.
# Every owner must use this very file: its digest is the identity of the dataset.

name = "clinic-links"        # letters, digits, '.', '_' and '-'

[schema]
ub = 1000                    # rule sse: values become whole numbers 0..ub (at most 1048576)
# low and high are public; a value outside them is refused. Choose them by meaning, not from the
# data. Owners' tables name their columns; the order does not matter, except under rule sse.
columns = [
    { name = "birth_year", low = 1900, high = 2030 },
    { name = "height", low = 40, high = 260 },
    # texts: "words" (letters), "digits" (dates, codes) or "filter" (bit filters in base64);
    # signs beyond the alphabet are refused, or with other = "map" all taken as the same one
    { name = "surname", text = "words", longest = 20 },
    { name = "postcode", text = "digits", longest = 5 },
]

[job]
kind = "linkage"             # which records of two owners are the same
# Rules, all exact:
#   "fields"  weights of the fields that agree add up to at least threshold; nothing missing agrees
#   "exact"   all of columns = [...] agree;  "numeric": all are within max
#   "edit"    edit distances of all texts add up to at most limit (attributes = number of texts)
#   "sse"     weighted squared differences add up to at most limit (weights = one a column)
#   "dice"    of bit filters, at least threshold (bits = length of the filter)
rule = "fields"
threshold = 4
fields = [
    { column = "surname", compare = "edit", max = 1, weight = 2 },
    { column = "postcode", compare = "exact", weight = 1 },
    { column = "birth_year", compare = "numeric", max = 0, weight = 2 },
    { column = "height", compare = "numeric", max = 2, weight = 1 },
]
# Blocks, which save pairs: "none" (all are compared, the clouds learn sizes only), "key" (any
# rule, loses matches between keys), "length" or "embedding" (rule edit), "adtree" or
# "adtree-shared" (rule sse).
blocks = "key"
lossy = true
# A pair is compared if it agrees in one of the keys. epsilon and delta are what the cells of a key
# cost each owner of its privacy budget: they add up, delta below one over the number of records.
# Texts are hashed to `buckets` cells (128), all of them or their `first` characters.
keys = [
    { column = "birth_year", epsilon = 1, delta = 0.000001 },
    { column = "postcode", first = 3, buckets = 100, epsilon = 1, delta = 0.000001 },
]
# links: an owner learns the partners of each of its rows, if they are at most max_links
# flags: only whether a row has a partner; count: only how many links there are in all
output = "links"
max_links = 1                # of all other owners together: with three owners, 2 is one of each
"""


@dataclass(frozen=True, slots=True)
class Job(kinds.Job):
    """Rule, blocks and what owners get."""

    kind: ClassVar[str] = "linkage"

    rule: Rule
    output: Output = field(default_factory=Links)
    blocking: Blocking = field(default_factory=NoBlocks)

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        if not isinstance(table, dict):
            raise SpecError("job must be a table")
        blocking = {key: table[key] for key in blocks.KEYS if key in table}
        rest = {key: value for key, value in table.items() if key not in (*blocking, *_OWN)}
        if "rule" not in rest:
            raise SpecError("job: missing rule")
        output = output_named(table.get("output", "links"), table.get("max_links", 1))
        return cls(rules.from_dict(rest), output, blocks.from_dict(blocking))

    def check(self, schema: Schema) -> None:
        """Refuse a rule or blocks that do not fit the columns."""
        schema.refuse_uses()
        for column in schema.columns:
            if column.values:
                raise SpecError(f'column {column.name!r}: a linkage takes words as text = "words"')
        self.rule.check(schema)
        self.space(schema)

    def describe(self) -> list[str]:
        """Sentences on what is revealed, to whom and how often."""
        return [
            f"Records match if {self.rule.describe()}.",
            *self.blocking.describe(),
            self.output.describe(),
            "The clouds learn nothing of the matches, not even their number.",
        ]

    @property
    def whole_numbers(self) -> bool:
        """Whether numbers are compared as they are, not rounded to steps of their range."""
        return not self.rule.on_grid

    @property
    def max_links(self) -> int:
        """The most partners of a row that its owner learns."""
        return self.output.max_links

    @property
    def rule_in_cells(self) -> Rule:
        """The rule as it compares rows in the cells of these blocks."""
        return self.blocking.rule_in_cells(self.rule)

    def space(self, schema: Schema) -> CellSpace:
        """The cells of the blocks."""
        return self.blocking.space(self.rule_in_cells, schema)

    def layout(self, schema: Schema) -> RowLayout:
        """The columns of an uploaded row."""
        return RowLayout.of(self.rule_in_cells.columns(schema), self.blocking.beside)

    @property
    def rearranged(self) -> bool:
        """Whether rows are uploaded in another order than an owner has them, with dummies."""
        return self.blocking.beside.real > 0

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the output shares, in the order in which a half makes them."""
        return self.output.names(self.rearranged)

    def to_dict(self) -> dict[str, Any]:
        return {**self.rule.to_dict(), **self.blocking.to_dict(), **self.output.to_dict()}


def job_of(spec: Spec) -> Job:
    """The job of a spec of this kind."""
    if not isinstance(spec.job, Job):
        raise OptionError(f"dataset {spec.name!r} is of the kind {spec.job.kind!r}, not linkage.")
    return spec.job
