"""The schema of a dataset: its columns with their public bounds, and the largest encoded value.

A column holds numbers between public bounds, or one of some public words (`values`), which count as
0, 1, ... in the order given; jobs that need numbers refuse columns of words. A kind of job that
compares texts may have columns of texts behind them. A job that links records and clusters them
says of each column what it is used for; columns of texts are for linking. A job that joins owners'
tables says of a column that not all owners have who has it (`held_by`).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ppodc.errors import SpecError
from ppodc.names import is_name
from ppodc.records.sharing import MAX_VALUE
from ppodc.toml_document import check_keys, check_whole, double, is_whole, quoted

MAX_COLUMNS = 4096
MAX_VALUES = 1 << 16
MAX_TEXT = {"words": 64, "digits": 64, "filter": 1 << 14}  # characters, or bits of a filter
_MAX_NAME = 128

Signs = Literal["words", "digits", "filter"]
Use = Literal["link", "cluster", "both"]


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute: its name and the public bounds that no value may leave.

    With `values` it holds these words instead of numbers; low is 0 and high the last one's number.
    `use` other than "both" is for jobs that link and cluster. `held_by` names the owners who have
    the column, for jobs that join tables of different columns; such a column is not compared.
    """

    name: str
    low: float
    high: float
    values: tuple[str, ...] = ()
    use: Use = "both"
    held_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.name)
        where = f"column {self.name!r}"
        if self.held_by:
            self._check_holders(where)
        if self.values:
            _check_values(self.values, where)
            if (self.low, self.high) != (0, len(self.values) - 1):
                raise SpecError(f"{where}: words have no low and high")
        # + 0.0 makes -0.0 and 0.0 the same column
        object.__setattr__(self, "low", double(self.low, f"low of {where}") + 0.0)
        object.__setattr__(self, "high", double(self.high, f"high of {where}") + 0.0)
        if not self.low < self.high:
            raise SpecError(f"{where}: low must be less than high")
        if math.isinf(self.high - self.low):
            raise SpecError(f"{where}: low and high are too far apart")
        if self.use not in get_args(Use):
            raise SpecError(f"{where}: use must be one of {', '.join(get_args(Use))}")

    def _check_holders(self, where: str) -> None:
        if not is_names(self.held_by):
            raise SpecError(f"{where}: held_by must be a list of owners, each once")
        if self.use == "link":
            raise SpecError(
                f"{where}: owners can be joined only by columns that all of them have. Leave out "
                "held_by, or use"
            )
        object.__setattr__(self, "held_by", tuple(self.held_by))
        object.__setattr__(self, "use", "cluster")

    @classmethod
    def of_words(cls, name: str, values: Sequence[str]) -> "Column":
        """A column of these words."""
        if isinstance(values, str) or not isinstance(values, Sequence) or len(values) < 2:
            raise SpecError(f"column {name!r}: values must be a list of at least two words")
        return cls(name, 0.0, float(len(values) - 1), tuple(values))

    @classmethod
    def from_dict(cls, entry: Any, where: str) -> "Column":
        """From {"name", "low", "high"} or {"name", "values"}."""
        if isinstance(entry, Mapping) and "values" in entry:
            check_keys(entry, where, required=("name", "values"))
            return cls.of_words(entry["name"], entry["values"])
        optional = ("use", "held_by")
        check_keys(entry, where, required=("name", "low", "high"), optional=optional)
        if "held_by" in entry and not is_names(entry["held_by"]):
            raise SpecError(f"{where}: held_by must be a list of owners, each once")
        return cls(**entry)

    def to_dict(self) -> dict[str, Any]:
        if self.values:
            return {"name": self.name, "values": list(self.values)}
        further: dict[str, Any] = {}  # left out where it is usual: older digests
        if self.held_by:
            further["held_by"] = list(self.held_by)
        elif self.use != "both":
            further["use"] = self.use
        return {"name": self.name, "low": self.low, "high": self.high, **further}

    def describe(self) -> str:
        """The values that it may hold, for people."""
        if self.values:
            return f"one of {', '.join(self.values)}"
        used = "" if self.use == "both" else f", to {self.use} records only"
        if self.held_by:
            used = f", held by {' and '.join(self.held_by)} alone"
        return f"from {self.low:g} to {self.high:g}{used}"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of texts: of words, of digits (dates, codes) or of bit filters in base64.

    `longest` is public: the most characters that a text may have, or the bits of a filter. Words
    hold letters without marks, digits, blanks, hyphens and apostrophes, digits only digits; with
    `other` = "map" any other sign counts as one and the same, else it is refused.
    """

    name: str
    signs: Signs
    longest: int
    other: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        where = f"column {self.name!r}"
        if self.signs not in get_args(Signs):
            raise SpecError(f"{where}: text must be one of {', '.join(get_args(Signs))}")
        check_whole(self.longest, f"longest of {where}", 1, MAX_TEXT[self.signs])
        if self.other not in ("", "map") or (self.other and self.signs == "filter"):
            raise SpecError(f'{where}: other must be "map", for words or digits, or be left out')

    @classmethod
    def from_dict(cls, entry: Any, where: str) -> "TextColumn":
        """From {"name", "text", "longest"} and perhaps "other"; a `use` can only be "link"."""
        optional = ("other", "use")
        check_keys(entry, where, required=("name", "text", "longest"), optional=optional)
        if entry.get("use", "link") != "link":
            raise SpecError(f"{where}: texts can be linked, not clustered")
        return cls(entry["name"], entry["text"], entry["longest"], entry.get("other", ""))

    def to_dict(self) -> dict[str, Any]:
        other = {"other": self.other} if self.other else {}
        return {"name": self.name, "text": self.signs, "longest": self.longest, **other}

    def describe(self) -> str:
        """The values that it may hold, for people."""
        if self.signs == "filter":
            return f"a filter of {self.longest} bits"
        mapped = "; all other signs count as the same one" if self.other else ""
        return f"{self.signs}, at most {self.longest} characters{mapped}"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns in their order, and the largest encoded value of a number."""

    columns: tuple[Column, ...]
    ub: int = 1000
    texts: tuple[TextColumn, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "texts", tuple(self.texts))
        if not 1 <= len(self.columns) + len(self.texts) <= MAX_COLUMNS:
            raise SpecError(f"a schema needs 1 to {MAX_COLUMNS} columns")
        if not is_whole(self.ub) or not 1 <= self.ub <= MAX_VALUE:
            raise SpecError(f"ub must be a whole number from 1 to {MAX_VALUE}")
        every = [*self.names, *(text.name for text in self.texts)]
        twice = [name for name, count in Counter(every).items() if count > 1]
        if twice:
            raise SpecError(f"columns named more than once: {quoted(twice)}")

    @property
    def names(self) -> list[str]:
        """Of all columns but those of texts."""
        return [column.name for column in self.columns]

    def named(self, name: str) -> "Column | TextColumn | None":
        """The column of this name, of numbers or of texts."""
        every: list[Column | TextColumn] = [*self.columns, *self.texts]
        return next((column for column in every if column.name == name), None)

    @classmethod
    def from_dict(cls, table: Any, where: str = "schema") -> "Schema":
        """From {"ub": ..., "columns": [{"name", "low", "high"}, ...]}; ub may be left out."""
        check_keys(table, where, required=("columns",), optional=("ub",))
        if not isinstance(table["columns"], list):
            raise SpecError(f"{where}.columns must be a list of tables with name, low and high")
        columns, texts = [], []
        for number, entry in enumerate(table["columns"], 1):
            place = f"{where}.columns, entry {number}"
            if isinstance(entry, Mapping) and "text" in entry:
                texts.append(TextColumn.from_dict(entry, place))
            else:
                columns.append(Column.from_dict(entry, place))
        return cls(tuple(columns), table.get("ub", 1000), tuple(texts))

    def to_dict(self) -> dict[str, Any]:
        every: list[Column | TextColumn] = [*self.columns, *self.texts]
        return {"ub": self.ub, "columns": [column.to_dict() for column in every]}

    @property
    def categories(self) -> dict[int, dict[str, int]]:
        """Of each column of words, by its place: the number of every word."""
        return {
            place: {word: number for number, word in enumerate(column.values)}
            for place, column in enumerate(self.columns)
            if column.values
        }

    def used_to(self, use: Use) -> "Schema":
        """The columns of numbers that are there for this, whatever else they are for."""
        columns = [
            replace(c, use="both", held_by=()) for c in self.columns if c.use in (use, "both")
        ]
        return Schema(tuple(columns), self.ub)

    def check_holders(self, owners: Sequence[str]) -> None:
        """Refuse columns held by nobody of these owners, and owners who hold none of them."""
        holders = {name for column in self.columns for name in column.held_by}
        unknown = sorted(holders - set(owners))
        if unknown:
            raise SpecError(
                f"held_by names {quoted(unknown)}, who are no owners of this dataset: it has "
                f"{quoted(owners)}"
            )
        without = [name for name in owners if name not in holders]
        if holders and without:
            raise SpecError(
                f"{quoted(without)} hold no column of their own, and all others are in held_by: "
                "name them there, or leave them out of the owners"
            )

    def refuse_holders(self) -> None:
        """Refuse columns that some owners hold, for a job that joins no tables."""
        named = [column.name for column in self.columns if column.held_by]
        if named:
            raise SpecError(
                f"columns {quoted(named)} have held_by, which is for jobs with a table [join]"
            )

    def refuse_uses(self) -> None:
        """Refuse columns that are not for everything, for a job that does one thing."""
        self.refuse_holders()
        named = [column.name for column in self.columns if column.use != "both"]
        if named:
            raise SpecError(
                f"columns {quoted(named)} have a `use`, which is for jobs that link and cluster"
            )

    def refuse_texts(self) -> None:
        """Refuse columns of texts, for a job that does not compare them."""
        self.refuse_uses()
        if self.texts:
            named = quoted([text.name for text in self.texts])
            raise SpecError(f"columns {named} hold texts, which this job does not take")

    def require_numbers(self) -> None:
        """Refuse columns of words and texts, for a job that computes with numbers."""
        self.refuse_texts()
        named = [column.name for column in self.columns if column.values]
        if named:
            raise SpecError(
                f"columns {quoted(named)} hold words, and this job needs numbers: give low and high"
            )


def is_names(value: Any) -> bool:
    """Whether this is a list of owners, each once."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        return False
    return all(map(is_name, value)) and len(set(value)) == len(value)


def _check_values(values: tuple[str, ...], where: str) -> None:
    if not 2 <= len(values) <= MAX_VALUES:
        raise SpecError(f"{where}: values must be 2 to {MAX_VALUES} words")
    for word in values:
        if not isinstance(word, str) or not word or word != word.strip():
            raise SpecError(f"{where}: every value must be a word without blanks at its ends")
        if not word.isprintable() or len(word) > _MAX_NAME:
            raise SpecError(f"{where}: a value has more than {_MAX_NAME} or unprintable signs")
    if len(set(values)) < len(values):
        raise SpecError(f"{where}: a value is given more than once")


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise SpecError("a column needs a name that is not empty")
    if name != name.strip() or not name.isprintable() or len(name) > _MAX_NAME:
        raise SpecError(
            f"column name {name[:_MAX_NAME]!r}: use at most {_MAX_NAME} printable characters "
            "without blanks at the ends"
        )
