"""The links of an owner's own rows as a file, for the commands that open a linkage."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppodc.cli.options import file_to_write
from ppodc.errors import InputError

if TYPE_CHECKING:
    from ppodc.linkage.result import Link

LinksFile = Annotated[
    Path | None,
    typer.Option(
        "--links",
        help="Write the links of own rows here (CSV; rows count from 0).",
        callback=file_to_write,
    ),
]


def links_of(result: Any) -> "list[tuple[int, Link]]":
    """(own row, its partner) of every link; InputError if the linkage tells none."""
    from ppodc.linkage.result import LinkResult

    if not isinstance(result, LinkResult) or result.links_ is None:
        raise InputError("this linkage tells no links, only what is printed.")
    return [(own, partner) for own, found in enumerate(result.links_) for partner in found]
