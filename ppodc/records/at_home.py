"""A table as an owner gives it: which columns and rows a job takes, and what stays at home."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class AtHome:
    """Parts of a table that stay at home: names of its rows, and which of them count."""

    ids: list[str] | None = None  # of the rows that count
    rows: list[int] | None = None  # their places in the table; None: all of them
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Only:
    """A table of which a job takes the columns that it asks for.

    `further`: other columns stay at home; else they are refused. `id_column` stays at home and
    names rows. `leave_out`: rows with a missing value are left out and counted; else refused.
    `source`: what errors call a table that is no file.
    """

    data: Any
    further: bool = True
    id_column: str = ""
    leave_out: bool = False
    source: str = ""
    home: AtHome = field(default_factory=AtHome)
