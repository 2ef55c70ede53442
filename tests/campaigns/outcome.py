"""Options that all campaigns share, and the end of each: tables, JSON and exit code."""

from pathlib import Path
from typing import Annotated

import typer

from ppodc.bench.document import Document, show
from ppodc.cli.options import JsonFile, err, write_json

__all__ = ["JsonFile", "Seed", "conclude"]

Seed = Annotated[int, typer.Option(help="Seed of the campaign. It repeats what was drawn.")]


def conclude(document: Document, json_file: Path | None, *, wrong: bool) -> None:
    """Show the document, write it as JSON, and end the process with 1 if something is wrong."""
    write_json(json_file, document)
    show(document)
    if wrong:
        err.print("[red]This campaign found errors.[/] The tables and the JSON have the details.")
        raise typer.Exit(1)
