"""Commands of operators: datasets and what is on record about them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ppodc.cli.options import AcceptEpsilon, Config1, Dataset, JobSuite, OperatorConfig, out
from ppodc.cli.privacy import show_explanation
from ppodc.errors import PpodcError

dataset = typer.Typer(
    help="Datasets: create, list, leave uploads out, seal, delete.", no_args_is_help=True
)
records = typer.Typer()


@dataset.command("create")
def dataset_create_command(
    spec: Annotated[Path, typer.Argument(help="Spec file; `ppodc sample-spec` prints one.")],
    config: OperatorConfig,
    accept_epsilon: AcceptEpsilon = None,
) -> None:
    """Create a dataset at both clouds from one spec file; owners may upload from then on."""
    from client.operator import Operator
    from ppodc.records.upload_form import SpendsPrivacy
    from ppodc.spec import Spec

    loaded = Spec.load(spec)
    form = loaded.kind.upload(loaded)
    if isinstance(form, SpendsPrivacy):
        form.privacy().check_accepted(accept_epsilon)
    with Operator.connect(config) as operator:
        digest = operator.create(loaded)
    out.print(f"dataset {loaded.name}: digest {digest}", soft_wrap=True)
    if loaded.job.kind == "local":
        show_explanation(loaded)


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


@dataset.command("uploads")
def dataset_uploads_command(name: Dataset, config: OperatorConfig) -> None:
    """List the uploads of a dataset: id, owner, records, and whether it counts."""
    from client.operator import Operator

    table = Table("upload", "owner", "records", "state")
    with Operator.connect(config) as operator:
        for upload in operator.uploads(name):
            state = upload.removed or ("committed" if upload.committed else "unfinished")
            table.add_row(upload.upload_id, upload.owner, str(upload.rows), state)
    out.print(table)


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
def dataset_delete_command(name: Dataset, config: OperatorConfig) -> None:
    """Delete all data of a dataset at both clouds, its result too; name and ledger stay."""
    from client.operator import Operator

    with Operator.connect(config) as operator:
        operator.delete(name)
    out.print(f"deleted: {name}")


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
    config: Annotated[
        Path, typer.Option(help="owner.toml or operator.toml; each reads what concerns it.")
    ],
    cloud: Annotated[int, typer.Option(min=1, max=2, help="Whose ledger: 1 or 2.")] = 1,
) -> None:
    """Print what a cloud has written down, who learnt what, and check that the chain holds."""
    from client.both_clouds import Clouds
    from ppodc.service.store.ledger import verify

    with Clouds.from_file(config)[0] as clouds:
        entries = clouds.ledger(cloud)
    table = Table("no.", "time", "event", "dataset", "detail", "who learnt what", "hash")
    shown = [entry for entry in entries if not entry.hidden]
    for e in shown:
        detail, learnt = e.in_words()
        table.add_row(str(e.number), e.time[:19], e.event, e.dataset, detail, learnt, e.hash[:8])
    out.print(table)
    found = verify(iter(entries))
    if found.broken is not None:
        raise PpodcError(f"the chain breaks at entry {found.broken}: {found.reason}.")
    hidden = len(entries) - len(shown)
    others = f", {hidden} of them not yours to read" if hidden else ""
    chain = f"chain of {found.entries} entries holds{others}; head {found.head}"
    out.print(chain, soft_wrap=True)
