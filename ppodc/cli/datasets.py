"""Commands of operators: datasets and what is on record about them."""

import json
from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

from ppodc.cli.options import (
    AcceptEpsilon,
    Config1,
    Dataset,
    JobSuite,
    JsonFile,
    OperatorConfig,
    out,
    show_table,
    write_json,
)
from ppodc.cli.privacy import show_explanation
from ppodc.errors import InputError, PpodcError

dataset = typer.Typer(
    help="Datasets: create, list, leave uploads out, seal, delete.", no_args_is_help=True
)
records = typer.Typer()


@dataset.command("create")
def dataset_create_command(
    spec: Annotated[Path, typer.Argument(help="Spec file; `ppodc sample-spec` prints one.")],
    config: OperatorConfig,
    accept_epsilon: AcceptEpsilon = None,
    single_records: Annotated[
        bool,
        typer.Option(
            "--accept-single-records", help="Accept a spec by which owners may learn one record."
        ),
    ] = False,
) -> None:
    """Create a dataset at both clouds from one spec file; owners may upload from then on."""
    from client.operator import Operator
    from ppodc.spec import Spec

    loaded = Spec.load(spec)
    if (privacy := loaded.form.privacy()) is not None:
        privacy.check_accepted(accept_epsilon)
    with Operator.connect(config) as operator:
        digest = operator.create(loaded, single_records=single_records)
    out.print(f"dataset {loaded.name}: digest {digest}")
    if loaded.job.kind == "local":
        show_explanation(loaded)


@dataset.command("list")
def dataset_list_command(config: OperatorConfig) -> None:
    """List the datasets of both clouds, with state, uploads and records."""
    from client.operator import Operator

    rows = []
    with Operator.connect(config) as operator:
        for entry in operator.datasets():
            counts = (str(entry.uploads), str(entry.rows), entry.digest[:12])
            agree = "yes" if entry.agreed else "NO: create it at both from the same file"
            rows.append((entry.name, entry.state, *counts, agree))
    show_table(("dataset", "state", "uploads", "records", "digest", "clouds agree"), rows)


@dataset.command("uploads")
def dataset_uploads_command(name: Dataset, config: OperatorConfig) -> None:
    """List the uploads of a dataset: id, owner, records, and whether it counts."""
    from client.operator import Operator

    rows = []
    with Operator.connect(config) as operator:
        for upload in operator.uploads(name):
            state = upload.removed or ("committed" if upload.committed else "unfinished")
            rows.append((upload.upload_id, upload.owner, str(upload.rows), state))
    show_table(("upload", "owner", "records", "state"), rows)


@dataset.command("leave-out")
def dataset_leave_out_command(
    name: Dataset,
    upload: Annotated[str, typer.Argument(help="Its id, as `ppodc dataset uploads` lists it.")],
    config: OperatorConfig,
) -> None:
    """Leave an upload out before sealing: both clouds delete it and write that down."""
    from client.operator import Operator

    with Operator.connect(config) as operator:
        operator.leave_out(name, upload)
    out.print(f"left out: upload {upload}")


@dataset.command("delete")
def dataset_delete_command(
    name: Dataset,
    config: OperatorConfig,
    cloud: Annotated[
        int | None, typer.Option(min=1, max=2, help="Only at this one, if the other is away.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for the name again.")] = False,
) -> None:
    """Delete all data of a dataset at both clouds, its result too; name and ledger stay."""
    from client.operator import Operator

    if not yes:
        gone = f"All records of {name}, of all owners, and its result are lost for good."
        if typer.prompt(f"{gone} Type the name of the dataset to delete it") != name:
            raise InputError("another name was typed, so nothing was deleted.")
    with Operator.connect(config) as operator:
        operator.delete(name, cloud)
    where = "" if cloud is None else f" at cloud {cloud}; the other one still has its part"
    out.print(f"deleted: {name}{where}")


@dataset.command("seal")
def dataset_seal_command(name: Dataset, config: Config1, suite: JobSuite = None) -> None:
    """Close a dataset for uploads at both clouds; `ppodc run` does it too."""
    from master.job import seal_dataset
    from ppodc.service.config import Cloud1Config, load

    report = seal_dataset(load(config, Cloud1Config), name, suite)
    found = f"{report.m} records of {report.uploads} uploads, digest {report.digest}"
    out.print(f"sealed: {found}")
    for upload in report.left_out:
        out.print(f"left out: upload {upload}, which only one cloud has")


@records.command("ledger")
def ledger_command(
    config: Annotated[
        Path, typer.Option(help="owner.toml or operator.toml; each reads what concerns it.")
    ],
    cloud: Annotated[int, typer.Option(min=1, max=2, help="Whose ledger: 1 or 2.")] = 1,
    since: Annotated[
        tuple[int, str] | None,
        typer.Option(
            metavar="ENTRY HASH",
            help="Check that it still has this entry, which you noted as its head; show what came "
            "after it.",
        ),
    ] = None,
    crossed: Annotated[
        bool,
        typer.Option(
            "--crossed",
            help="Compare both ledgers: each holds the heads that the other cloud has told.",
        ),
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Print what a cloud has written down, who learnt what, and check that the chain holds.

    The last line has the number of entries and the head. Whoever notes them can later see, with
    --since, that nothing was cut off or written anew.
    """
    from client.both_clouds import Clouds
    from ppodc.service.ledger_entries import check_crossed, check_noted, verify

    with Clouds.from_file(config)[0] as clouds:
        entries, other = clouds.ledger(cloud), []
        if crossed:
            other = clouds.ledger(3 - cloud)
    first = 0 if since is None else max(0, since[0])
    shown = [entry for entry in entries[first:] if not entry.hidden]
    show_table(
        ("no.", "time", "event", "dataset", "detail", "who learnt what", "hash"),
        [
            (str(e.number), e.time[:19], e.event, e.dataset, *e.describe(), e.hash[:16])
            for e in shown
        ],
    )
    found = verify(iter(entries))
    if found.broken is not None:
        raise PpodcError(f"the chain breaks at entry {found.broken}: {found.reason}.")
    if since is not None:
        check_noted(entries, *since)
    if crossed:
        broken = verify(iter(other)).broken
        if broken is not None:
            raise PpodcError(f"the chain of cloud {3 - cloud} breaks at entry {broken}.")
        notes = check_crossed(entries, other) + check_crossed(other, entries)
        out.print(f"both ledgers fit: {notes} heads that one has of the other are there")
    hidden = sum(entry.hidden for entry in entries[first:])
    others = f", {hidden} of them not yours to read" if hidden else ""
    chain = f"chain of {found.entries} entries holds{others}; head {found.entries} {found.head}"
    out.print(chain)
    lines = [{**to_builtins(entry), "detail": json.loads(entry.detail)} for entry in shown]
    write_json(json_file, {"entries": lines, "length": found.entries, "head": found.head})
