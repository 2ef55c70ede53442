"""TOML text that came from a file, and its tables checked key by key."""

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

from ppodc.errors import InputError


def parse_toml(text: str) -> dict[str, Any]:
    """The document in TOML text; the error of what does not parse names line and column."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers of too many digits
        raise InputError(f"not valid TOML: {error}") from error


def check_keys(
    table: Any, where: str, *, required: Collection[str], optional: Collection[str] = ()
) -> None:
    """Refuse what is not a table, lacks a required key or has an unknown one."""
    if not isinstance(table, Mapping):
        raise InputError(f"{where} must be a table with the keys {', '.join(required)}")
    missing = [key for key in required if key not in table]
    if missing:
        raise InputError(f"{where}: missing {', '.join(missing)}")
    unknown = [str(key) for key in table if key not in required and key not in optional]
    if unknown:
        known = ", ".join([*required, *optional])
        raise InputError(f"{where}: unknown key {quoted(unknown)}; known are {known}")


def is_whole(value: Any) -> bool:
    """Whether a value from a file is an integer (True and False are not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def double(value: Any, what: str) -> float:
    """A finite double that equals the given number."""
    if not is_whole(value) and not isinstance(value, float):
        raise InputError(f"{what} must be a number")
    if isinstance(value, int) and abs(value) > 1 << 53:
        raise InputError(f"{what} is too large for a whole number: write it as a decimal")
    if not math.isfinite(value):
        raise InputError(f"{what} must be finite")
    return float(value)


def fraction(value: Any, what: str) -> Fraction:
    """An exact number as written: 0.7 means 7/10, not the nearest double; "7/10" is accepted."""
    if isinstance(value, Fraction):
        return value
    if not is_whole(value) and not isinstance(value, (float, str)):
        raise InputError(f"{what} must be a number")
    try:
        return Fraction(repr(float(value)) if isinstance(value, float) else value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InputError(f"{what} must be a finite number such as 0.5 or '1/2'") from None


def plain(value: Any) -> Any:
    """A value as a document has it: tuples as lists, fractions as text, exact."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value


def quoted(names: Sequence[str]) -> str:
    """The first few names, in quotes."""
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def check_whole(value: Any, what: str, low: int, high: int) -> None:
    """Refuse what is not an integer of this range."""
    if not is_whole(value) or not low <= value <= high:
        raise InputError(f"{what} must be a whole number from {low} to {high}")
