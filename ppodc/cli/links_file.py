"""The links of an owner's own rows as a file, for the commands that open a linkage."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppodc.cli.options import file_to_write, write_csv
from ppodc.errors import OptionError

if TYPE_CHECKING:
    from ppodc.linkage.result import Link

LinksFile = Annotated[
    Path | None,
    typer.Option(
        "--links",
        help="Write the links of own rows here (CSV; rows count from 0), with their ids if known.",
        callback=file_to_write,
    ),
]


def links_of(result: Any) -> "list[tuple[int, Link]]":
    """(own row, its partner) of every link; InputError if the linkage tells none."""
    from ppodc.linkage.result import LinkResult

    if not isinstance(result, LinkResult) or result.links_ is None:
        raise OptionError("this linkage tells no links, only what is printed.")
    return [(own, partner) for own, found in enumerate(result.links_) for partner in found]


def write_links(
    file: Path, result: Any, partner: Sequence[str], names: Mapping[str, Sequence[str]]
) -> None:
    """Write own rows, their ids if there are any, and these parts of their partners."""
    rows = names.get("row", range(len(getattr(result, "partners_", ()))))
    ids = names.get("id")
    parts = {"owner": 0, "owner_upload": 1, "owner_row": 2}
    found = [
        [rows[own], *([] if ids is None else [ids[own]]), *(link[parts[name]] for name in partner)]
        for own, link in links_of(result)
    ]
    write_csv(file, ["row", *([] if ids is None else ["id"]), *partner], found)
