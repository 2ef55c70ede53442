"""Commands of owners: read what they agree to, give records, take them back, fetch results."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppodc.cli.datasets import clouds_agree
from ppodc.cli.opened_results import show_result, waiting
from ppodc.cli.options import (
    AcceptEpsilon,
    Dataset,
    JsonFile,
    LeaveOut,
    OnlyAsked,
    OwnConfig,
    config_option,
    err,
    file_to_write,
    on_interrupt,
    out,
    png_to_write,
    show_table,
    write_columns,
    write_csv,
    write_json,
)
from ppodc.errors import OptionError

if TYPE_CHECKING:
    from client.sending import Receipt

owners = typer.Typer()
IdColumn = Annotated[
    str,
    typer.Option(
        "--id",
        help="Column that names rows. It stays here and is written into labels and links; in local "
        "jobs it names people, each with an account of its own.",
    ),
]


@owners.command("spec")
def spec_command(
    name: Annotated[str, typer.Argument(help="Name of the dataset, or a spec file (.toml).")],
    config: Annotated[
        Path | None,
        config_option("owner.toml or operator.toml: ask both clouds.", needed=False),
    ] = None,
) -> None:
    """Explain a spec: who takes part, what is revealed to whom and how often. Print its digest."""
    from client.both_clouds import Clouds
    from ppodc.spec import Spec

    file = Path(name)
    if file.suffix == ".toml" and file.is_file():
        spec = Spec.load(file)
    elif config is None:
        raise OptionError(
            f"there is no spec file {name}. To ask the clouds for the dataset {name!r}, give "
            "--config owner.toml (or operator.toml)."
        )
    else:
        with Clouds.from_file(config)[0] as clouds:
            spec = clouds.spec(name)
    out.print(f"dataset {spec.name}", markup=False)
    for line in (*spec.describe(), f"digest {spec.digest}"):
        out.print(line, markup=False)


@owners.command("upload")
def upload_command(
    name: Dataset,
    data: Annotated[Path, typer.Argument(help="Table: CSV (also .csv.gz), Parquet or .xlsx.")],
    config: OwnConfig,
    spec: Annotated[
        Path | None,
        typer.Option(help="Spec file that you agree to; the clouds must show the same."),
    ] = None,
    digest: Annotated[
        str | None, typer.Option(help="Or its digest, as `ppodc spec` prints it.")
    ] = None,
    accept_epsilon: AcceptEpsilon = None,
    id_column: IdColumn = "",
    header: Annotated[bool, typer.Option(help="Whether the CSV has a line of names.")] = True,
    only: OnlyAsked = False,
    leave_out: LeaveOut = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Withdraw your earlier uploads: this corrects them.")
    ] = False,
    accept_differencing: Annotated[
        list[str] | None,
        typer.Option(
            help="Accept that two exact results, here and of this dataset, tell a few rows."
        ),
    ] = None,
) -> None:
    """Split a table into shares and give one to each cloud. Safe to repeat after any failure.

    The first upload to a dataset names the spec that you agree to, by --spec or --digest. Another
    table adds to what you uploaded before, unless it is to --replace that.
    """
    from client.owner import Owner

    if spec is not None and digest is not None:
        raise OptionError("give --spec or --digest, not both.")
    state = (
        "The clouds have part of the upload, which does not count until both have all of it. The "
        f"same command goes on with it; ppodc withdraw {name} takes back what you uploaded."
    )
    with on_interrupt(lambda: state), Owner.connect(config) as owner:
        receipt = owner.upload(
            name,
            data,
            spec=spec or digest,
            accept_epsilon=accept_epsilon,
            id_column=id_column,
            header=header,
            replace=replace,
            only=only,
            leave_out=leave_out,
            accept_differencing=accept_differencing or (),
        )
    again = " (already there; nothing was sent)" if receipt.repeated else ""
    out.print(f"uploaded: {receipt.rows} records, upload {receipt.upload_id}{again}")
    if receipt.left_out:
        rows = "1 row lacks" if receipt.left_out == 1 else f"{receipt.left_out} rows lack"
        out_of = "was" if receipt.left_out == 1 else "were"
        err.print(f"note: {rows} a value and {out_of} left out.")
    if receipt.privacy is not None:
        out.print(str(receipt.privacy), markup=False)
    _show_earlier(receipt, f"ppodc upload {name} {data} --replace")


@owners.command("releases")
def releases_command(config: OwnConfig) -> None:
    """List the exact jobs that hold your rows. Two of them must not differ by a few rows."""
    from client.owner import Owner

    with Owner.connect(config) as owner:
        found = owner.releases()
    show_table(
        ["dataset", "rows", "since", "columns"],
        [[each.dataset, str(each.rows), each.began, ", ".join(each.columns)] for each in found],
    )


def _show_earlier(receipt: "Receipt", command: str) -> None:
    """Show earlier uploads: a corrected table must not count beside the wrong one."""
    padded = any(upload.outline for upload in receipt.before)
    records = "records (dummies of cells among them)" if padded else "records"
    for lost in receipt.lost:
        err.print(
            f"note: cloud {lost.cloud} has lost your earlier upload {lost.upload_id}; it was "
            "restored from an older copy. That upload does not count, this one does.",
            markup=False,
        )
    if receipt.replaced:
        for upload in receipt.before:
            out.print(f"withdrawn: {upload.rows} {records}, upload {upload.upload_id}")
    elif receipt.before:
        rows, others = receipt.rows, receipt.rows_before
        err.print(
            f"note: they add to the {others} {records} that you uploaded before"
            + ("" if padded else f", which makes {rows + others}")
            + ". If they correct these, withdraw the earlier ones before the dataset is sealed, "
            f"with: {command}",
            markup=False,
        )


@owners.command("withdraw")
def withdraw_command(
    name: Dataset,
    config: OwnConfig,
    upload: Annotated[str | None, typer.Option(help="One upload by its id; else all own.")] = None,
) -> None:
    """Take uploads back before the records are sealed. Both clouds delete them."""
    from client.owner import Owner

    with Owner.connect(config) as owner:
        withdrawn = owner.withdraw(name, upload)
    for upload_id in withdrawn:
        out.print(f"withdrawn: upload {upload_id}")
    if not withdrawn:
        out.print("nothing to withdraw: the clouds have no upload of yours")


@owners.command("labels")
def labels_command(
    name: Dataset,
    data: Annotated[
        Path, typer.Argument(help="Table: CSV (also .csv.gz), Parquet or .xlsx of own rows.")
    ],
    config: OwnConfig,
    to: Annotated[Path, typer.Option(help="Write the cluster of each row here (CSV).")],
    id_column: IdColumn = "",
    header: Annotated[bool, typer.Option(help="Whether the CSV has a line of names.")] = True,
    only: OnlyAsked = False,
) -> None:
    """Find the cluster of each of your rows from the result of a local job. Nothing is sent."""
    from client.owner import Owner
    from ppodc.records.read_table import Only, names_of_rows

    with Owner.connect(config) as owner:
        given = Only(data) if only else data
        labels = owner.labels(name, given, id_column=id_column, header=header)
    names = {} if not id_column else {"id": names_of_rows(data, id_column, header=header)}
    write_columns(to, {**names, "label": labels.tolist()})


@owners.command("datasets")
def datasets_command(config: OwnConfig) -> None:
    """List the datasets that you take part in, their states, and your uploads."""
    from client.owner import Owner

    rows = []
    with Owner.connect(config) as owner:
        for entry in owner.datasets():
            counts = [str(entry.uploads), str(entry.rows), entry.digest[:12]]
            progress = str(owner.progress(entry.name))
            rows.append([entry.name, progress, *counts, clouds_agree(entry)])
    if not rows:
        out.print("no dataset names your key among its owners")
        return
    headings = ["dataset", "state", "own uploads", "own records", "spec", "clouds agree"]
    show_table(headings, rows)


@owners.command("progress")
def progress_command(name: Dataset, config: OwnConfig) -> None:
    """Show how far a dataset's job is."""
    from client.owner import Owner

    with Owner.connect(config) as owner:
        progress = owner.progress(name)
    out.print(f"{name}: {progress}", markup=False)
    if progress.message:
        out.print(progress.message, markup=False)


@owners.command("result")
def result_command(
    name: Dataset,
    config: OwnConfig,
    wait: Annotated[bool, typer.Option(help="Wait until the job is done.")] = True,
    labels: Annotated[
        Path | None, typer.Option(help="Write the cluster of each own record here (CSV).")
    ] = None,
    csv_file: Annotated[
        Path | None,
        typer.Option(
            "--csv", help="Write the table here as CSV, in full precision.", callback=file_to_write
        ),
    ] = None,
    elbow: Annotated[
        Path | None,
        typer.Option(
            help="Draw the inertia over k here (PNG), of a job with several.", callback=png_to_write
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Fetch both halves of the result and open it: centres or totals, own labels, inertia."""
    from client.owner import Owner

    with Owner.connect(config) as owner, waiting(name) as tell:
        result = owner.result(name, wait=wait, on_wait=tell, rows=labels is not None)
        own = result.own_rows()
        names = owner.row_names(name, len(next(iter(own.values())))) if own and labels else {}
    if elbow is not None:
        _draw_elbow(result, elbow)
    show_result(result)
    if labels is not None:
        if not own:
            raise OptionError(
                "the spec of this dataset does not offer labels. Where clusters are public to "
                "owners (local jobs, k-means with [privacy]), `ppodc labels` finds them from your "
                "own table."
            )
        write_columns(labels, {**names, **own})
    if csv_file is not None:
        write_csv(csv_file, *result.table())
    write_json(json_file, result.figures())


def _draw_elbow(result: Any, file: Path) -> None:
    from ppodc.kmeans.result import ResultsByK
    from ppodc.kmeans.result_plot import draw_elbow

    if not isinstance(result, ResultsByK):
        raise OptionError(
            "this job has one number of clusters. A spec with k = [2, 3, 4, 5] and inertia = true "
            "gives what --elbow draws."
        )
    draw_elbow(result, file)
    err.print(f"written: {file}", markup=False)
