"""Commands of operators: datasets and what is on record about them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppodc.cli.options import (
    AcceptEpsilon,
    Config1,
    Dataset,
    JobSuite,
    OperatorConfig,
    out,
    show_table,
)
from ppodc.cli.plain_help import group
from ppodc.cli.privacy import show_explanation
from ppodc.errors import OptionError

if TYPE_CHECKING:
    from client.both_clouds import ListedDataset
    from ppodc.service.sealed_uploads import Upload

dataset = group(help="Create, list, seal and delete datasets, or leave uploads out.")


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
    """List the datasets of both clouds, with state, uploads, records and the disk they take.

    Records are those that both clouds have. A dataset that one cloud alone has is listed too.
    """
    from client.operator import Operator

    rows = []
    with Operator.connect(config) as operator:
        for entry in operator.datasets():
            counts = (str(entry.uploads), str(entry.rows), _size(entry.disk), entry.digest[:12])
            rows.append((entry.name, entry.shown_state, *counts, clouds_agree(entry)))
    show_table(("dataset", "state", "uploads", "records", "disk", "digest", "clouds agree"), rows)


def clouds_agree(entry: "ListedDataset") -> str:
    """Whether the clouds tell the same of a dataset, for people."""
    if not entry.note:
        return "yes"
    return f"yes, but {entry.note}" if entry.agreed else f"NO: {entry.note}"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count} B"


@dataset.command("uploads")
def dataset_uploads_command(name: Dataset, config: OperatorConfig) -> None:
    """List the uploads of a dataset: id, owner, records, and whether it counts."""
    from client.operator import Operator

    rows = []
    with Operator.connect(config) as operator:
        for upload, known in operator.uploads_by_cloud(name):
            states = {n: _state(each) for n, each in known.items()}
            state = _both(states, len(operator.clouds))
            rows.append((upload.upload_id, upload.owner, str(upload.rows), state))
    show_table(("upload", "owner", "records", "state"), rows)


def _state(upload: "Upload") -> str:
    return upload.removed or ("committed" if upload.committed else "unfinished")


def _both(states: dict[int, str], clouds: int) -> str:
    """The state of an upload at all clouds; where they differ it does not count."""
    if len(set(states.values())) == 1 and len(states) == clouds:
        return next(iter(states.values()))
    told = ", ".join(f"{state} at cloud {number}" for number, state in states.items())
    return f"{told}, not at the other" if len(states) < clouds else told


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
            raise OptionError("another name was typed, so nothing was deleted.")
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
