"""Pages from templates: every value is escaped, and an unknown name is an error."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from client.desk.meanings import meanings
from ppodc import __version__

HERE = Path(__file__).parent


def count(number: float) -> str:
    """A whole number with commas."""
    return f"{int(number):,}"


def number(value: float, digits: int = 4) -> str:
    """A number of so many significant digits, without an exponent where that is readable."""
    if math.isnan(value):
        return "none"
    whole = f"{value:.{digits}g}"
    if "e" in whole and 1e-6 < abs(value) < 1e15:
        whole = f"{float(whole):f}".rstrip("0").rstrip(".")
    head, dot, tail = whole.partition(".")
    return f"{int(head):,}{dot}{tail}" if head.isdigit() and len(head) > 4 else whole


def plural(amount: int, one: str, many: str = "") -> str:
    """The amount with its noun."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def moment(text: str) -> str:
    """A time in UTC, as ledgers keep it, for people."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    when = when.replace(tzinfo=when.tzinfo or UTC).astimezone(UTC)
    return f"{when.day} {when:%b} {when:%H:%M}"


def size(amount: float) -> str:
    """Bytes, for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.3g} {unit}"


def environment() -> Environment:
    """Of all templates: of pages, of the report as one file, and of notebooks."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": count,
        "number": number,
        "moment": moment,
        "size": size,
        "plural": plural,
        "cap": lambda words: words[:1].upper() + words[1:],
    }
    made.globals |= {"release": __version__, "meanings": meanings}
    return made


class Pages:
    """Templates with what every page of one desk shows: whose it is and where it leads."""

    def __init__(self, base: str, who: str, links: Sequence[tuple[str, str]]) -> None:
        """`links`: (path, name) of the bar; `base` goes before every path."""
        self.base = base
        self._environment = environment()
        self._shown: Mapping[str, Any] = {"base": base, "who": who, "links": links}

    def text(self, template: str, /, **values: Any) -> str:
        """A template as text."""
        return self._environment.get_template(template).render(**{**self._shown, **values})

    def page(self, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
        """A template as an answer."""
        return HTMLResponse(self.text(template, **values), status)
