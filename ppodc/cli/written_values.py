"""Values as people write them in options, and what they mean."""

import re

from ppodc.errors import InputError


def numbers(text: str) -> list[int]:
    """What a list such as "2,4,8" means, in order and each once."""
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{text!r} is not a list of whole numbers such as 2,4,8.") from None
    if min(values) < 1:
        raise InputError(f"{text!r}: all numbers must be at least 1.")
    return sorted(set(values))


def numbers_or_none(text: str) -> list[int]:
    """The same; "none" is an empty list."""
    return [] if text == "none" else numbers(text)


def whole(text: str) -> int:
    """A whole number, also written as 1e6 or 63,608."""
    try:
        value = float(text.replace(",", ""))
        if value == int(value):
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise InputError(f"{text!r} is not a whole number of records such as 63608 or 1e6.")


def duration(text: str) -> float:
    """Seconds, from "3600", "90s", "60min" or "1h"."""
    match = re.fullmatch(r"([0-9.]+) *(s|min|h|d|)", text.strip())
    try:
        value = float(match[1]) if match else 0.0
    except ValueError:
        value = 0.0
    if match is None or value <= 0:
        raise InputError(f"{text!r} is not a time such as 90s, 30min, 1h or 2d.")
    return value * {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}[match[2]]
