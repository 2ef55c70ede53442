"""The job of a spec of the kind `linkage`: which records match, and what their owners learn."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from ppodc.errors import InputError
from ppodc.linkage import rules
from ppodc.linkage.blocking import KEYS, Blocking, Cutting, cutting_of
from ppodc.linkage.distances import Numbers
from ppodc.linkage.rules import Dice, EditDistance, Field, Rule, SquaredDistance
from ppodc.records.schema import Schema, TextColumn
from ppodc.records.toml_document import check_whole
from ppodc.spec import Spec

Output = Literal["links", "flags", "count", "shared"]  # shared: inside another job, to nobody
MAX_LINKS = 8
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
# rule, loses matches between keys), "length" (rule edit), "adtree" or "adtree-shared" (rule sse).
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
class Job:
    """Rule, blocks and what owners get."""

    kind: ClassVar[str] = "linkage"

    rule: Rule
    output: Output = "links"
    blocking: Blocking = field(default_factory=Blocking)
    max_links: int = 1

    def __post_init__(self) -> None:
        if self.output not in get_args(Output):
            raise InputError(f"job.output must be one of {', '.join(get_args(Output))}")
        check_whole(self.max_links, "job.max_links", 1, MAX_LINKS)
        if self.output != "links" and self.max_links != 1:
            raise InputError('job.max_links is for output = "links" only.')

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        if not isinstance(table, dict):
            raise InputError("job must be a table")
        blocks = {key: table[key] for key in ("blocks", *KEYS) if key in table}
        rest = {key: value for key, value in table.items() if key not in (*blocks, *_OWN)}
        if "rule" not in rest:
            raise InputError("job: missing rule")
        return cls(
            rules.from_dict(rest),
            table.get("output", "links"),
            Blocking.from_dict(blocks),
            table.get("max_links", 1),
        )

    def check(self, schema: Schema) -> None:
        """Refuse a rule or blocks that do not fit the columns."""
        schema.refuse_uses()
        for column in schema.columns:
            if column.values:
                raise InputError(f'column {column.name!r}: a linkage takes words as text = "words"')
        if isinstance(self.rule, SquaredDistance):
            schema.require_numbers()
            self.rule.check_columns(len(schema.columns), schema.ub)
            self.numbers(schema)
        elif isinstance(self.rule, EditDistance):
            _check_texts(self.rule, schema)
        elif isinstance(self.rule, Dice):
            _check_filter(self.rule, schema)
        else:
            for part in self.rule.fields:
                _check_field(part, schema)
        self.cutting(schema)

    def in_words(self) -> list[str]:
        """What is revealed, to whom and how often."""
        return [
            f"Records match if {_rule_in_words(self.rule)}.",
            *self.blocking.in_words(),
            self._learns(),
            "The clouds learn nothing of the matches, not even their number.",
        ]

    def require_output(self) -> None:
        """Refuse a linkage of which nobody learns anything, as a job of its own."""
        if self.output == "shared":
            raise InputError(
                'output = "shared" tells nobody anything: it is for a table [linkage] in the spec '
                "of a k-means job."
            )

    def _learns(self) -> str:
        if self.output == "shared":
            return "Nobody learns which records match."
        if self.output == "count":
            return "Every owner learns, once, how many pairs of records match, and nothing else."
        learns = "whether it has a partner"
        if self.output == "links":
            one = self.max_links == 1
            who = "its one partner" if one else "its partners"
            otherwise = "it has none or several" if one else f"they are over {self.max_links}"
            learns = f"{who} among all other owners (owner and row number), or that {otherwise}"
        return f"Every owner learns, once, of each of its own rows {learns}."

    @property
    def whole_numbers(self) -> bool:
        """Whether numbers are compared as they are, not rounded to steps of their range."""
        return not isinstance(self.rule, SquaredDistance)

    def numbers(self, schema: Schema) -> Numbers:
        """The rule sse over the encoded values of this schema."""
        if not isinstance(self.rule, SquaredDistance):
            raise InputError("this rule is not over numbers.")
        return Numbers(self.rule, schema.ub.bit_length())

    def cutting(self, schema: Schema) -> Cutting:
        """The domain of the blocks."""
        return cutting_of(self.blocking, self.rule, schema)

    def to_dict(self) -> dict[str, Any]:
        several = {} if self.max_links == 1 else {"max_links": self.max_links}
        blocks = self.blocking.to_dict()
        return {**rules.to_dict(self.rule), **blocks, "output": self.output, **several}


def job_of(spec: Spec) -> Job:
    """The job of a spec of this kind."""
    if not isinstance(spec.job, Job):
        raise InputError(f"dataset {spec.name!r} is of the kind {spec.job.kind!r}, not linkage.")
    return spec.job


def text_column(schema: Schema, name: str) -> TextColumn | None:
    """The column of texts of this name."""
    return next((text for text in schema.texts if text.name == name), None)


def _check_texts(rule: EditDistance, schema: Schema) -> None:
    if len(schema.texts) != rule.attributes or any(t.signs == "filter" for t in schema.texts):
        raise InputError(
            f"rule edit of {rule.attributes} attributes needs as many columns of words or digits."
        )
    largest = sum(text.longest for text in schema.texts)
    if rule.limit >= largest:
        raise InputError(
            f"with limit {rule.limit} every pair of records would match: the edit distances of "
            f"texts as long as these columns allow add up to {largest}."
        )


def _check_filter(rule: Dice, schema: Schema) -> None:
    if [(text.signs, text.longest) for text in schema.texts] != [("filter", rule.bits)]:
        raise InputError(f"rule dice needs one column of texts, a filter of {rule.bits} bits.")


def _check_field(part: Field, schema: Schema) -> None:
    where, text = f"field {part.column!r}", text_column(schema, part.column)
    if text is None and part.column not in schema.names:
        raise InputError(f"{where} is no column of the schema.")
    if part.how == "edit" and (text is None or text.signs == "filter"):
        raise InputError(f"{where}: edit compares columns of words or digits.")
    if part.how == "numeric" and text is not None:
        raise InputError(f"{where}: numeric compares columns of numbers.")
    if part.how == "exact" and text is not None and text.signs == "filter":
        raise InputError(f"{where}: a filter is compared by the rule dice.")
    if text is not None:
        _check_tolerance(part, text.longest)
        return
    column = next(column for column in schema.columns if column.name == part.column)
    if column.high - column.low >= 1 << 20 or column.low % 1 or column.high % 1:
        raise InputError(f"{where}: a field of numbers needs whole bounds less than 2^20 apart.")
    _check_tolerance(part, int(column.high - column.low))


def _check_tolerance(part: Field, largest: int) -> None:
    """Refuse a field in which any two values agree."""
    if part.how != "exact" and part.most >= largest:
        raise InputError(
            f"field {part.column!r}: with max {part.most} any two values would agree: they are at "
            f"most {largest} apart."
        )


def _rule_in_words(rule: Rule) -> str:
    if isinstance(rule, SquaredDistance):
        weights = ", ".join(map(str, rule.weights))
        return (
            f"the weighted sum of squared differences is at most {rule.limit} (weights {weights}; "
            "values count in steps)"
        )
    if isinstance(rule, EditDistance):
        return f"the edit distances of their texts add up to at most {rule.limit}"
    if isinstance(rule, Dice):
        return f"the Dice coefficient of their filters is at least {float(rule.threshold):g}"
    return f"the weights of these fields that agree reach {rule.threshold}: " + "; ".join(
        f"{part.column} ({_field_in_words(part)}, weight {part.weight})" for part in rule.fields
    )


def _field_in_words(part: Field) -> str:
    return {
        "exact": "equal",
        "edit": f"edit distance at most {part.most}",
        "numeric": f"at most {part.most} apart",
    }[part.how]
