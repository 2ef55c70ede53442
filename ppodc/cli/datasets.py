"""Commands of operators: datasets and what is on record about them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ppodc.cli.options import Config1, Dataset, JobSuite, OperatorConfig, out
from ppodc.errors import PpodcError

dataset = typer.Typer(help="Datasets: create, list, seal.", no_args_is_help=True)
records = typer.Typer()


@dataset.command("create")
def dataset_create_command(
    spec: Annotated[Path, typer.Argument(help="Spec file; `ppodc sample-spec` prints one.")],
    config: OperatorConfig,
) -> None:
    """Create a dataset at both clouds from one spec file; owners may upload from then on."""
    from client.operator import Operator
    from ppodc.spec import Spec

    loaded = Spec.load(spec)
    with Operator.connect(config) as operator:
        digest = operator.create(loaded)
    out.print(f"dataset {loaded.name}: digest {digest}", soft_wrap=True)


@dataset.command("list")
def dataset_list_command(config: OperatorConfig) -> None:
    """List the datasets of both clouds, with state, uploads and records."""
    from client.operator import Operator

    table = Table("dataset", "state", "uploads", "records", "digest", "clouds agree")
    with Operator.connect(config) as operator:
        for entry in operator.datasets():
            counts = (str(entry.uploads), str(entry.rows), entry.digest[:12])
            agree = "yes" if entry.agreed else "NO: create it at both from the same file"
            table.add_row(entry.name, entry.state, *counts, agree)
    out.print(table)


@dataset.command("seal")
def dataset_seal_command(name: Dataset, config: Config1, suite: JobSuite = None) -> None:
    """Close a dataset for uploads at both clouds; `ppodc run` does it too."""
    from master.job import seal_dataset
    from ppodc.service.config import Cloud1Config, load

    report = seal_dataset(load(config, Cloud1Config), name, suite)
    found = f"{report.m} records of {report.uploads} uploads, digest {report.digest}"
    out.print(f"sealed: {found}", soft_wrap=True)
    for upload in report.left_out:
        out.print(f"left out: upload {upload}, which only one cloud has")


@records.command("ledger")
def ledger_command(
    config: OperatorConfig,
    cloud: Annotated[int, typer.Option(min=1, max=2, help="Whose ledger: 1 or 2.")] = 1,
) -> None:
    """Print every reveal a cloud has written down, and check that the chain of hashes holds."""
    from client.operator import Operator
    from ppodc.service.store.ledger import verify

    with Operator.connect(config) as operator:
        entries = operator.ledger(cloud)
    table = Table("no.", "time", "event", "dataset", "detail", "hash")
    for e in entries:
        row = (str(e.number), e.time[:19], e.event, e.dataset, e.detail, e.hash[:8])
        table.add_row(*row)
    out.print(table)
    found = verify(iter(entries))
    if found.broken is not None:
        raise PpodcError(f"the chain breaks at entry {found.broken}: {found.reason}.")
    out.print(f"chain of {found.entries} entries holds; head {found.head}", soft_wrap=True)
