"""Options that several commands of `ppodc bench ldp` share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ppodc.errors import InputError

FOLDER = Path("../shared/data")
SET_NAMES = ("s1", "s1-5000", "adult", "bank", "a1", "unbalance")
EPSILONS = (0.5, 1.0, 2.0, 4.0)


def epsilons(value: str | Sequence[float]) -> list[float]:
    """Numbers from a list such as "0.5,1,2", sorted and without repetition."""
    try:
        parts = value.split(",") if isinstance(value, str) else value
        values = sorted({float(part) for part in parts})
    except ValueError:
        raise InputError(f"{value!r} is not a list of numbers such as 0.5,1,2.") from None
    if not 0 < values[0] <= values[-1] <= 1000:
        raise InputError(f"{value!r}: every epsilon must be above 0 and at most 1000.")
    return values


def sets(value: str | Sequence[str]) -> list[str]:
    """Names of data sets from a list, or "all"."""
    text = ",".join(SET_NAMES) if value == "all" else value
    names = [part.strip() for part in (text.split(",") if isinstance(text, str) else text)]
    unknown = [name for name in names if name not in SET_NAMES]
    if unknown:
        known = ", ".join(SET_NAMES)
        raise InputError(f"There is no data set {unknown[0]!r}. The known sets are {known}.")
    return names


Data = Annotated[Path, typer.Option(help="Folder of the public data sets.")]
Runs = Annotated[int, typer.Option(min=1, help="Runs to take the mean of.")]
Sets = Annotated[
    Sequence[str],
    typer.Option(parser=sets, metavar="LIST", help=f"Data sets, of {', '.join(SET_NAMES)}."),
]
Epsilons = Annotated[
    Sequence[float], typer.Option(parser=epsilons, metavar="LIST", help="Epsilons of one record.")
]
