"""The job of a spec of the kind `linkage`: which records match, and what their owners learn."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from ppodc.errors import InputError
from ppodc.linkage import rules
from ppodc.linkage.distances import Numbers
from ppodc.linkage.rules import SquaredDistance
from ppodc.records.schema import Schema
from ppodc.records.toml_document import check_keys
from ppodc.spec import Spec

Output = Literal["links", "flags"]
SAMPLE = """\
# A ppodc dataset: its columns and the job that all owners agree to.
# Every owner must use this very file: its digest is the identity of the dataset.

name = "clinic-links"        # letters, digits, '.', '_' and '-'

[schema]
ub = 1000                    # values become whole numbers 0..ub (at most 1048576)
# The columns in the order of the owners' tables. low and high are public; a value outside
# them is refused. Choose them by meaning, not from the data.
columns = [
    { name = "birth_year", low = 1900, high = 2030 },
    { name = "height", low = 40, high = 260 },
    { name = "weight", low = 0, high = 300 },
]

[job]
kind = "linkage"             # which records of two owners are the same
rule = "sse"                 # match: sum of weight * (difference)^2 over the columns <= limit
weights = [4, 1, 1]          # one for each column, whole numbers; 0 leaves a column out
limit = 50                   # in squared units of 0..ub; 0 means equal after rounding
blocks = "none"              # every pair of records is compared; the clouds learn sizes only
# links: an owner learns the one partner of each of its rows, or that there are several
# flags: an owner learns only whether a row has a partner
output = "links"
"""


@dataclass(frozen=True, slots=True)
class Job:
    """Rule, blocks and what owners get."""

    kind: ClassVar[str] = "linkage"

    rule: SquaredDistance
    output: Output = "links"

    def __post_init__(self) -> None:
        if self.output not in get_args(Output):
            raise InputError(f"job.output must be one of {', '.join(get_args(Output))}")

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        if isinstance(table, dict) and table.get("rule") != SquaredDistance.name:
            raise InputError('job.rule must be "sse": a job on the clouds matches numbers.')
        check_keys(
            table, "job", required=("rule", "weights", "limit"), optional=("blocks", "output")
        )
        if table.get("blocks", "none") != "none":
            raise InputError('job.blocks must be "none": a job on the clouds compares all pairs.')
        rule = rules.from_dict({key: table[key] for key in ("rule", "weights", "limit")})
        if not isinstance(rule, SquaredDistance):
            raise InputError("a job on the clouds matches numbers.")
        return cls(rule, table.get("output", "links"))

    def check(self, schema: Schema) -> None:
        """Refuse a rule that does not fit the columns."""
        schema.require_numbers()
        self.rule.check_columns(len(schema.columns), schema.ub)
        self.numbers(schema)

    def in_words(self) -> list[str]:
        """What is revealed, to whom and how often."""
        weights, limit = ", ".join(map(str, self.rule.weights)), self.rule.limit
        learns = "whether it has a partner"
        if self.output == "links":
            learns = "its one partner (owner and row number), or that it has none or several"
        return [
            f"Records match if the weighted sum of squared differences is at most {limit} "
            f"(weights {weights}; values count in steps).",
            f"Every owner learns, once, of each of its own rows {learns}.",
            "The clouds learn the number of records of each upload and nothing of the matches.",
        ]

    def numbers(self, schema: Schema) -> Numbers:
        """The rule over the encoded values of this schema."""
        return Numbers(self.rule, schema.ub.bit_length())

    def to_dict(self) -> dict[str, Any]:
        return {**rules.to_dict(self.rule), "blocks": "none", "output": self.output}


def job_of(spec: Spec) -> Job:
    """The job of a spec of this kind."""
    if not isinstance(spec.job, Job):
        raise InputError(f"dataset {spec.name!r} is of the kind {spec.job.kind!r}, not linkage.")
    return spec.job
