"""The command `ppodc`. Parties' own commands are loaded only when they are called."""

import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ppodc.cli.bench import bench
from ppodc.cli.bench_ldp import ldp as _ldp  # noqa: F401 - its commands stand under bench
from ppodc.cli.local import pair
from ppodc.cli.options import (
    Config1,
    Config2,
    Dataset,
    JobSuite,
    JsonFile,
    OperatorConfig,
    OwnConfig,
    Pairs,
    SafeKeyBits,
    SuiteOption,
    err,
    out,
    write_json,
)
from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.kmeans import suites

if TYPE_CHECKING:
    from master.job import JobEnd
    from ppodc.pairs.progress import Listener

app = typer.Typer(
    name="ppodc",
    help=(
        "Exact k-means on secret-shared records: owners split every value between two clouds, the "
        "clouds cluster without seeing a record, owners come back for the centres."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
cloud1 = typer.Typer(help="Cloud 1: takes share 1 of every record.", no_args_is_help=True)
cloud2 = typer.Typer(help="Cloud 2: takes the seeds, holds the key.", no_args_is_help=True)
dataset = typer.Typer(help="Datasets: create, list, seal.", no_args_is_help=True)
for _group, _name in (
    (cloud1, "cloud1"),
    (cloud2, "cloud2"),
    (dataset, "dataset"),
    (bench, "bench"),
):
    app.add_typer(_group, name=_name)
app.add_typer(pair)


@app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(help="A new folder for the deployment.")],
    owners: Annotated[int, typer.Option(help="How many owners.")] = 2,
    cloud1_listen: Annotated[
        str, typer.Option(help="Address cloud 1 listens on.")
    ] = "tcp://127.0.0.1:7401",
    cloud2_listen: Annotated[
        str, typer.Option(help="Address cloud 2 listens on.")
    ] = "tcp://127.0.0.1:7402",
    cloud1_endpoint: Annotated[
        str | None, typer.Option(help="Where others reach cloud 1, if not where it listens.")
    ] = None,
    cloud2_endpoint: Annotated[
        str | None, typer.Option(help="Where others reach cloud 2, if not where it listens.")
    ] = None,
    key_bits: SafeKeyBits = 2048,
) -> None:
    """Write keys and commented configurations: a folder for each cloud, operator and owner."""
    from ppodc.service import deployment

    made = deployment.create(
        folder,
        owners,
        cloud1_listen=cloud1_listen,
        cloud2_listen=cloud2_listen,
        cloud1_endpoint=cloud1_endpoint,
        cloud2_endpoint=cloud2_endpoint,
        key_bits=key_bits,
    )
    out.print(made.describe(), markup=False)


@app.command("key")
def key_command(
    stem: Annotated[
        Path, typer.Argument(metavar="NAME", help="Such as keys/cloud1: makes keys/cloud1.secret.")
    ],
    with_paillier: Annotated[
        bool, typer.Option("--paillier", help="Cloud 2's: a Paillier key in the same folder too.")
    ] = False,
    key_bits: SafeKeyBits = 2048,
) -> None:
    """Make the key of one party: NAME.secret stays there, NAME.public goes to the others.

    For parties that trust nobody with their keys, instead of `ppodc init` for all.
    """
    from ppodc.service import deployment

    for path, secret in deployment.make_key(stem, key_bits if with_paillier else None):
        out.print(
            f"{path}: {'keep it secret' if secret else 'give it to the others'}", markup=False
        )


def _serve(serve: Callable[[Path, Callable[[str], None]], None], config: Path, name: str) -> None:
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )

    def ready(endpoint: str) -> None:
        sys.stdout.write(f"{name} listens at {endpoint}; stop it with Ctrl-C or SIGTERM\n")
        sys.stdout.flush()

    serve(config, ready)


@cloud1.command("serve")
def cloud1_serve_command(config: Config1) -> None:
    """Run cloud 1's gateway: owners upload and fetch results here."""
    from cloud1.service import serve

    _serve(serve, config, "cloud1")


@cloud2.command("serve")
def cloud2_serve_command(config: Config2) -> None:
    """Run cloud 2: its gateway for owners, and its workers when cloud 1 runs a job."""
    from cloud2.service import serve

    _serve(serve, config, "cloud2")


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


@app.command("upload")
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


@app.command("result")
def result_command(
    name: Dataset,
    config: OwnConfig,
    wait: Annotated[bool, typer.Option(help="Wait until the job is done.")] = True,
    labels: Annotated[
        Path | None, typer.Option(help="Write the cluster of each own record here (CSV).")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Fetch both halves of the result and open it: centres, sizes, own labels."""
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


def _run_job(start: Callable[["Listener"], "JobEnd"], json_file: Path | None) -> None:
    from ppodc.cli.screen import JobScreen

    with JobScreen() as screen:
        end = start(screen.show)
    write_json(json_file, end.figures())
    if end.state == "cancelled":
        out.print(f"{end.dataset}: cancelled")
        return
    out.print(f"{end.dataset}: done, {end.m} records, {end.summary}")
    out.print("owners fetch the result with: ppodc result " + end.dataset)


@app.command("prepare")
def prepare_command(
    name: Dataset,
    config: Config1,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations to make ahead for.")] = 10,
    suite: JobSuite = None,
    pairs: Pairs = None,
) -> None:
    """Fill the pairs' pools with randomness ahead of a run of the same suite and as many pairs.

    Seal the dataset first. Supplies stay on the workers' disks and serve once; a run that needs
    more makes more by itself.
    """
    from master.job import prepare_job
    from ppodc.cli.screen import JobScreen
    from ppodc.service.config import Cloud1Config, load

    loaded = load(config, Cloud1Config)
    with JobScreen() as screen:
        prepare_job(loaded, name, iterations, suite, pairs, screen.show)
    out.print(f"{name}: pools hold the supplies of {iterations} iterations")


@app.command("run")
def run_command(
    name: Dataset,
    config: Config1,
    suite: JobSuite = None,
    pairs: Pairs = None,
    json_file: JsonFile = None,
) -> None:
    """Run a dataset's job: seal it, cluster over the worker pairs, leave the result to owners.

    Works from a shell and as `ray job submit -- ppodc run ...`. Ctrl-C stops it where it is;
    `ppodc resume` goes on.
    """
    from master.job import run_job
    from ppodc.service.config import Cloud1Config, load

    loaded = load(config, Cloud1Config)
    _run_job(lambda progress: run_job(loaded, name, suite, pairs, progress), json_file)


@app.command("resume")
def resume_command(
    name: Dataset, config: Config1, pairs: Pairs = None, json_file: JsonFile = None
) -> None:
    """Continue a job that failed or was interrupted, from the last iteration both clouds have."""
    from master.job import resume_job
    from ppodc.service.config import Cloud1Config, load

    loaded = load(config, Cloud1Config)
    _run_job(lambda progress: resume_job(loaded, name, pairs, progress), json_file)


@app.command("status")
def status_command(name: Dataset, config: Config1) -> None:
    """Tell where a job stands."""
    from master.job import status
    from ppodc.service.config import Cloud1Config, load

    job = status(load(config, Cloud1Config), name)
    where = f", iteration {job.iteration}" if job.iteration else ""
    out.print(f"{name}: {job.state}{where}; last change {job.updated}")
    if job.message:
        out.print(job.message, markup=False)


@app.command("cancel")
def cancel_command(name: Dataset, config: Config1) -> None:
    """Stop a job for good; no result will be revealed."""
    from master.job import cancel_job
    from ppodc.service.config import Cloud1Config, load

    state = cancel_job(load(config, Cloud1Config), name)
    waiting = "" if state == "cancelled" else " (the running master stops at its next step)"
    out.print(f"{name}: {state}{waiting}")


@app.command("ledger")
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


@app.command("demo")
def demo_command(
    folder: Annotated[
        Path, typer.Option(help="Where plot and files go (made anew if it is a demo's).")
    ] = Path("demo_output"),
    suite: SuiteOption = suites.DEFAULT,
    rows: Annotated[int, typer.Option(min=6, help="Invented records of both owners.")] = 600,
    pairs: Annotated[int, typer.Option(min=1, max=8, help="Worker pairs.")] = 2,
) -> None:
    """Run everything on this machine: 2 owners, 2 clouds, worker pairs; plot the clusters."""
    from client.demo import demo

    if not demo(folder, suite, rows, pairs):
        raise typer.Exit(1)


def main() -> None:
    """Entry point: errors meant for the user come out in one line, Ctrl-C without a traceback."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # end in order: children, temporary folders
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup, for one, ignores SIGHUP
            signal.signal(number, lambda got, _: sys.exit(128 + got))
    try:
        app()
    except ChannelError as error:
        err.print(f"[red]link:[/] {escape(str(error))}")
        sys.exit(3)
    except PpodcError as error:
        err.print(f"[red]error:[/] {escape(str(error))}")
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        err.print(f"[red]error:[/] {escape(where)}{error.strerror or type(error).__name__}")
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("interrupted")
        sys.exit(130)
