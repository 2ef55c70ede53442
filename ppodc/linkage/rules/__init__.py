"""Rules of record linkage: when two records match. A rule is one class in a file of its own."""

from collections.abc import Callable
from typing import Any

from ppodc.errors import SpecError
from ppodc.linkage.rules.dice import Dice, dice
from ppodc.linkage.rules.edit import EditDistance, EditPruning, edit_distance
from ppodc.linkage.rules.field import Edit, Exact, Field, Numeric, edit, exact, numeric
from ppodc.linkage.rules.fields import Fields, all_equal, all_near, all_of, fields
from ppodc.linkage.rules.grams import Grams, grams
from ppodc.linkage.rules.levels import (
    Dates,
    EditLevels,
    FrequencyClasses,
    Swapped,
    date,
    frequency,
    levels,
    swapped,
)
from ppodc.linkage.rules.rule import Record, Rule
from ppodc.linkage.rules.sse import SquaredDistance, SquaredPruning, sse

__all__ = [
    "Dates",
    "Dice",
    "Edit",
    "EditDistance",
    "EditLevels",
    "EditPruning",
    "Exact",
    "Field",
    "Fields",
    "FrequencyClasses",
    "Grams",
    "Numeric",
    "Record",
    "Rule",
    "SquaredDistance",
    "SquaredPruning",
    "Swapped",
    "all_of",
    "date",
    "dice",
    "edit",
    "edit_distance",
    "exact",
    "fields",
    "frequency",
    "from_dict",
    "grams",
    "levels",
    "numeric",
    "sse",
    "swapped",
]
_READERS: dict[str, Callable[[dict[str, Any]], Rule]] = {
    "sse": SquaredDistance.from_dict,
    "edit": EditDistance.from_dict,
    "fields": Fields.from_dict,
    "exact": all_equal,
    "numeric": all_near,
    "dice": Dice.from_dict,
}


def from_dict(table: Any) -> Rule:
    """Parse the rule in the table of a spec."""
    name = table.get("rule") if isinstance(table, dict) else None
    if not isinstance(name, str) or name not in _READERS:
        raise SpecError(f"rule must be one of {', '.join(_READERS)}")
    return _READERS[name](table)
