"""Options that several commands of `ppodc bench` share, and values as users write them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ppodc.bench.network_presets import LinkName
from ppodc.bench.points import Points
from ppodc.errors import InputError
from ppodc.kmeans.suites import Suite


def numbers(value: str | Sequence[int]) -> list[int]:
    """Whole numbers from a list such as "2,4,8", sorted and without repetition. "none" is empty."""
    if value in ("none", ()):
        return []
    try:
        values = [int(part) for part in (value.split(",") if isinstance(value, str) else value)]
    except ValueError:
        raise InputError(f"{value!r} is not a list of whole numbers such as 2,4,8.") from None
    if min(values) < 1:
        raise InputError(f"{value!r}: all numbers must be at least 1.")
    return sorted(set(values))


def whole(value: str | int) -> int:
    """A whole number, also written as 1e6 or 63,608."""
    try:
        number = float(str(value).replace(",", ""))
        if number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise InputError(f"{value!r} is not a whole number of records such as 63608 or 1e6.")


def duration(text: str) -> float:
    """Seconds from a text such as "3600", "90s", "60min" or "1h"."""
    match = re.fullmatch(r"([0-9.]+) *(s|min|h|d|)", text.strip())
    try:
        value = float(match[1]) if match else 0.0
    except ValueError:
        value = 0.0
    if match is None or value <= 0:
        raise InputError(f"{text!r} is not a time such as 90s, 30min, 1h or 2d.")
    return value * {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}[match[2]]


Records = Annotated[int, typer.Option(help="Records.")]
Attributes = Annotated[int, typer.Option(help="Attributes.")]
Clusters = Annotated[int, typer.Option(help="Clusters.")]
Pairs = Annotated[int, typer.Option(min=1, help="Worker pairs.")]
Iterations = Annotated[int, typer.Option(min=1, help="Iterations to measure.")]
ManyRecords = Annotated[
    Sequence[int],
    typer.Option(parser=numbers, metavar="LIST", help="Records, such as 2000,10000."),
]
ManyAttributes = Annotated[
    Sequence[int], typer.Option(parser=numbers, metavar="LIST", help="Attributes, such as 5,10.")
]
ManyClusters = Annotated[
    Sequence[int], typer.Option(parser=numbers, metavar="LIST", help="Clusters, such as 2,4,8.")
]
ManyPairs = Annotated[
    Sequence[int], typer.Option(parser=numbers, metavar="LIST", help="Numbers of worker pairs.")
]
OneSuite = Annotated[
    Suite, typer.Option(help="shares: secret shares, fast. paillier: as published, slow.")
]
AnySuite = Annotated[Suite | None, typer.Option(help="One suite; both if left out.")]
KeyBits = Annotated[
    int,
    typer.Option(help="Paillier key: 2048 or 3072 bits; fewer to compare with published figures."),
]
ManyKeyBits = Annotated[
    Sequence[int],
    typer.Option(
        parser=numbers,
        metavar="LIST",
        help="Paillier keys; 1,024 bits as published.",
    ),
]
PaillierRecords = Annotated[
    int, typer.Option(min=1, help="Records of the paillier suite, extrapolated to all m.")
]
ImitatedLink = Annotated[
    LinkName | None, typer.Option(help="Imitate a link between the clouds; loopback if left out.")
]
Gbit = Annotated[float | None, typer.Option(help="Gbit/s of the link in each direction.")]
LatencyMs = Annotated[float | None, typer.Option(help="One-way latency of the link.")]
KeptPoints = Annotated[
    Points,
    typer.Option(
        parser=lambda file: Points(Path(file)),
        default_factory=lambda: "bench-points.jsonl",
        show_default="bench-points.jsonl",
        metavar="FILE",
        help="Finished points are kept in this file and not measured again.",
    ),
]
