"""Owners' tables as the columns of small numbers that their clouds get shares of.

What a row becomes depends on the rule: numbers 0..ub (`sse`), codes of the characters of each text
(`edit`), the columns of each field (`fields`, see `field_encoding`), or the bits of a filter
(`dice`). Blocks by key add a column for each pass: the number of the row's cell, which stays at the
owner unless a later pass needs it (`passes`).

A table may have no rows. It is taken as a whole or refused as a whole, with the row and the column
of what does not fit and never its value. Under `fields` a missing value agrees with nothing;
elsewhere it has no place.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.exact_codes import number_bits, text_bits, text_code
from ppodc.linkage.field_encoding import encode_field, width
from ppodc.linkage.job import Job, job_of, text_column
from ppodc.linkage.keys import Key
from ppodc.linkage.rules import Dice, EditDistance, Field, Fields, Rule, SquaredDistance
from ppodc.linkage.strings import MAPPED, NONE, codes, mapped, normalise
from ppodc.records.encode import encode
from ppodc.records.read_cells import Cells, read_cells
from ppodc.records.read_table import read, some
from ppodc.records.schema import Column, Schema, TextColumn
from ppodc.records.toml_document import quoted
from ppodc.spec import Spec

_ALPHABETS = {"words": "a-z, 0-9, blank, - and '", "digits": "0-9"}
Ints = NDArray[np.int64]


class _Fault(Exception):  # noqa: N818 - carries the words for one cell
    """Why a value cannot be used; never the value itself."""


def fills(job: Job) -> bool:
    """Whether texts are padded beyond their longest: those whose lengths stay secret are."""
    return job.blocking.kind != "length"


def link_columns(job: Job, schema: Schema) -> int:
    """How many numbers a row becomes, without what the clouds get beside them."""
    rule = job.rule
    if isinstance(rule, SquaredDistance):
        return len(schema.columns)
    if isinstance(rule, EditDistance):
        more = rule.limit if fills(job) else 0
        return sum(text.longest + more for text in schema.texts)
    if isinstance(rule, Dice):
        return rule.bits
    return sum(width(part, field_size(part, schema)) for part in rule.fields)


def field_size(part: Field, schema: Schema) -> int:
    """The size of a field, as `field_encoding` has it: characters or bits."""
    text = text_column(schema, part.column)
    if text is None:
        return number_bits(_number_column(part, schema))
    return text.longest if part.how == "edit" else text_bits(text)


def _number_column(part: Field, schema: Schema) -> Column:
    return next(column for column in schema.columns if column.name == part.column)


def encode_rows(data: Any, spec: Spec, *, header: bool = True) -> Ints:
    """(rows, `link_columns`), and the number of each key if blocks are made by keys."""
    job, schema = job_of(spec), spec.schema
    if isinstance(job.rule, SquaredDistance):
        values = encode(data, schema, header=header, empty=True)
        keys = _number_keys(job, schema, data, header)
    else:
        table = _Table(read_cells(data, header=header, empty=True), schema)
        values = _encoded(job, schema, table)
        keys = _cell_keys(job, schema, table)
        table.check()
    return np.column_stack([values, *keys])


# ------------------------------------------------------------------------ cells of a table


class _Table:
    """The owner's cells by column name, and what is wrong with them."""

    def __init__(self, cells: Cells, schema: Schema) -> None:
        self._cells = cells
        self._faults: set[tuple[int, str]] = set()  # a column may be read twice
        wanted = [*schema.names, *(text.name for text in schema.texts)]
        names = wanted if cells.names is None else cells.names
        missing = [name for name in wanted if name not in names]
        unknown = [name for name in names if name not in wanted]
        if missing or unknown or len(names) != len(cells.columns) or len(set(names)) < len(names):
            raise InputError(
                f"{cells.source}: the columns must be {quoted(wanted)}"
                + (f"; missing {quoted(missing)}" if missing else "")
                + (f"; unknown {quoted(unknown)}" if unknown else "")
            )
        self._columns = dict(zip(names, cells.columns, strict=True))

    @property
    def rows(self) -> int:
        return self._cells.rows

    def read(
        self, name: str, change: Callable[[Any], Any], missing: Any, *, needed: bool
    ) -> list[Any]:
        """A column, changed value by value; faults are noted and stand for `missing`."""
        found = []
        for row, value in enumerate(self._columns[name]):
            new = missing
            try:
                if value is not None:
                    new = change(value)
                elif needed:
                    self._note(row, name, "missing")
            except _Fault as fault:
                self._note(row, name, str(fault))
            found.append(new)
        return found

    def _note(self, row: int, name: str, fault: str) -> None:
        self._faults.add((row, f"{self._cells.row_name(row)}, column {name!r}: {fault}"))

    def check(self) -> None:
        """InputError with the first few faults, if there are any."""
        if self._faults:
            total = len(self._faults)
            raise InputError(
                f"{self._cells.source}: {total} value{'s' * (total > 1)} cannot be used, so "
                "nothing was encoded: "
                + some((place for _, place in sorted(self._faults)), total)
                + self._advice()
            )

    def _advice(self) -> str:
        if not any("signs other" in place for _, place in self._faults):
            return ""
        return '. A spec whose column has other = "map" takes all such signs as one.'


def _encoded(job: Job, schema: Schema, table: _Table) -> Ints:
    rule: Rule = job.rule
    if isinstance(rule, EditDistance):
        more = rule.limit if fills(job) else 0
        shortest = job.blocking.shortest
        parts = [_codes(table, text, more, shortest) for text in schema.texts]
        return np.concatenate(parts, axis=1)
    if isinstance(rule, Dice):
        return _filters(table, schema.texts[0])
    if not isinstance(rule, Fields):
        raise InputError("this rule is over numbers.")
    return np.concatenate([_field(table, part, schema) for part in rule.fields], axis=1)


def _codes(table: _Table, text: TextColumn, more: int, shortest: int) -> Ints:
    read_text = _text_reader(text, shortest)
    texts = table.read(text.name, read_text, "", needed=True)
    digits, wide = text.signs == "digits", text.longest + more
    rows = [codes(value, digits=digits) for value in texts]
    filled = [row + [NONE] * (wide - len(row)) for row in rows]
    return np.array(filled, np.int64).reshape(len(rows), wide)


def _text_reader(text: TextColumn, shortest: int = 0) -> Callable[[Any], str]:
    """Normalised texts that fit their column, whatever they are compared by."""

    def change(value: Any) -> str:
        plain = normalise(_as_text(value))
        if len(plain) > text.longest:
            raise _Fault(f"{len(plain)} characters, at most {text.longest} are allowed")
        if len(plain) < shortest:
            raise _Fault(f"{len(plain)} characters, at least {shortest} are needed")
        known = mapped(plain, digits=text.signs == "digits")
        if not text.other and MAPPED in known:
            raise _Fault(f"signs other than {_ALPHABETS[text.signs]}")
        return known

    return change


def _as_text(value: Any) -> str:
    """Texts as they are; codes that a table holds as whole numbers by their digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise _Fault("not a text")
    if value % 1:
        raise _Fault("not a text, nor a whole number")
    return str(int(value))


def _filters(table: _Table, text: TextColumn) -> Ints:
    def change(value: Any) -> NDArray[np.uint8]:
        try:
            data = base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise _Fault("not base64") from None
        bits = np.unpackbits(np.frombuffer(data, np.uint8))
        if len(data) != -(-text.longest // 8) or bits[text.longest :].any():
            raise _Fault(f"not a filter of {text.longest} bits")
        if not bits.any():
            raise _Fault("a filter without any bit")
        return bits[: text.longest]

    none = np.zeros(text.longest, np.uint8)
    filters = table.read(text.name, change, none, needed=True)
    return np.array(filters, np.int64).reshape(len(filters), text.longest)


def _field(table: _Table, part: Field, schema: Schema) -> Ints:
    text = text_column(schema, part.column)
    if text is None:
        column = _number_column(part, schema)
        values = table.read(column.name, _whole_reader(column), None, needed=False)
    else:
        values = table.read(text.name, _text_reader(text), None, needed=False)
        if part.how == "exact":
            values = [None if value is None else text_code(text, value) for value in values]
    digits = text is not None and text.signs == "digits"
    return encode_field(part, values, field_size(part, schema), digits=digits)


def _whole_reader(column: Column) -> Callable[[Any], int]:
    """x - low of a whole number within the bounds."""

    def change(value: Any) -> int:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise _Fault("not a number") from None
        if isinstance(value, bool) or (isinstance(value, str) and "_" in value) or number % 1:
            raise _Fault("not a whole number")
        if not column.low <= number <= column.high:
            raise _Fault(f"below {column.low:g}" if number < column.low else "above the bound")
        return int(number - column.low)

    return change


# ------------------------------------------------------------------------------- keys of blocks


def _cell_keys(job: Job, schema: Schema, table: _Table) -> list[Ints]:
    """The cell of every row in each pass."""
    return [_key_numbers(key, schema, table) for key in job.blocking.keys]


def _key_numbers(key: Key, schema: Schema, table: _Table) -> Ints:
    column = key.of(schema)
    reader = _whole_reader(column) if isinstance(column, Column) else _text_reader(column)
    values = table.read(column.name, reader, None, needed=False)
    return np.array([key.number(value) for value in values], np.int64)


def _number_keys(job: Job, schema: Schema, data: Any, header: bool) -> list[Ints]:
    """The same of a table of numbers, whose values were checked already."""
    if not job.blocking.keys:
        return []
    table, found = read(data, header=header, empty=True), []
    for key in job.blocking.keys:
        column = key.of(schema)
        values = table.values[:, schema.names.index(column.name)]
        wrong = np.flatnonzero(values % 1)
        if len(wrong):
            places: Sequence[str] = [
                f"{table.row_name(int(row))}, column {column.name!r}: not a whole number"
                for row in wrong[:5]
            ]
            raise InputError(
                f"{table.source}: {len(wrong)} values cannot be used, so nothing was encoded: "
                + some(places, len(wrong))
            )
        low = int(schema.columns[schema.names.index(column.name)].low)
        found.append(np.array([key.number(int(value) - low) for value in values], np.int64))
    return found
