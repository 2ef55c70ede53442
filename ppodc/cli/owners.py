"""Commands of owners: give records, fetch results."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ppodc.cli.options import Dataset, JsonFile, OwnConfig, out, write_json
from ppodc.errors import InputError

owners = typer.Typer()


@owners.command("upload")
def upload_command(
    name: Dataset,
    data: Annotated[Path, typer.Argument(help="CSV (also .csv.gz) or Parquet table.")],
    config: OwnConfig,
    header: Annotated[bool, typer.Option(help="Whether the CSV has a line of names.")] = True,
) -> None:
    """Split a table into shares and give one to each cloud. Safe to repeat after any failure."""
    from client.owner import Owner

    with Owner.connect(config) as owner:
        receipt = owner.upload(name, data, header=header)
    again = " (already there; nothing was sent)" if receipt.repeated else ""
    out.print(f"uploaded: {receipt.rows} records, upload {receipt.upload_id}{again}")


@owners.command("result")
def result_command(
    name: Dataset,
    config: OwnConfig,
    wait: Annotated[bool, typer.Option(help="Wait until the job is done.")] = True,
    labels: Annotated[
        Path | None, typer.Option(help="Write the cluster of each own record here (CSV).")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Fetch both halves of the result and open it: centres or totals, own labels."""
    from client.owner import Owner

    with Owner.connect(config) as owner:
        result = owner.result(name, wait=wait)
    headings, rows = result.table()
    table = Table(*headings)
    for row in rows:
        table.add_row(*row)
    out.print(table)
    out.print(result.summary())
    if labels is not None:
        if not result.own_rows():
            raise InputError("the spec of this dataset does not offer labels.")
        name, values = next(iter(result.own_rows().items()))
        labels.write_text(f"{name}\n" + "".join(f"{x}\n" for x in values))
        out.print(f"written: {labels}")
    write_json(json_file, result.figures())
