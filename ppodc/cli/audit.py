"""`ppodc audit`: a cloud gives its record to an auditor, who runs the cloud's part again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppodc.cli.options import config_option, err, out
from ppodc.cli.plain_help import group
from ppodc.errors import ConfigError

if TYPE_CHECKING:
    from ppodc.service.store import Store

audit = group(help="Check that a cloud kept to the protocol, in jobs whose spec says audit = true.")
CloudConfig = Annotated[Path, config_option("cloud1.toml or cloud2.toml of this deployment.")]
RegisterFile = Annotated[
    Path, typer.Option("--register", help="The auditor's file of datasets and sides.")
]


@audit.command("draw")
def draw_command(
    spec: Annotated[Path, typer.Argument(help="Spec file of the dataset.")],
    register: RegisterFile = Path("audits.json"),
) -> None:
    """Draw the cloud whose record the auditor may see; once a dataset. For the auditor.

    Draw when the job has ended: until then no cloud may know whose record it will be.
    """
    from ppodc.audit.register import Register
    from ppodc.spec import Spec

    side = Register(register).draw(Spec.load(spec).digest)
    out.print(f"ask cloud {side} for its record, and cloud {3 - side} for its ledger")


@audit.command("export")
def export_command(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")],
    folder: Annotated[Path, typer.Argument(help="New folder for the bundle.")],
    config: CloudConfig,
) -> None:
    """Write this cloud's record into a folder for the auditor. For the cloud that was drawn.

    It holds this cloud's shares: hand it to the auditor alone, and delete the folder after.
    """
    from ppodc.audit.bundle import export

    with _store(config) as store:
        export(store, dataset, folder)
    out.print(f"{dataset}: the record is in {folder}; hand it to the auditor and to nobody else")


@audit.command("ledger")
def ledger_command(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")],
    file: Annotated[Path, typer.Argument(help="File to write.")],
    config: CloudConfig,
) -> None:
    """Write this cloud's ledger for the auditor: what concerns the dataset, the rest as hashes.

    With it goes what the other cloud has signed in the sessions of the dataset.
    """
    import msgspec

    from ppodc.audit.testimony import testimony
    from ppodc.files import write_private

    with _store(config) as store:
        write_private(file, msgspec.json.encode(testimony(store, dataset)))
    out.print(f"{dataset}: the ledger is in {file}")


@audit.command("erase")
def erase_command(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")], config: CloudConfig
) -> None:
    """Erase seeds and records of a job whose audit is over; sessions are forward secret then."""
    with _store(config) as store:
        store.datasets.get(dataset)
        sessions = store.audits.erase(dataset)
    out.print(f"{dataset}: the records of {sessions} sessions are erased")


@audit.command("check")
def check_command(
    bundle: Annotated[Path, typer.Argument(help="Folder that the cloud has exported.")],
    other_ledger: Annotated[
        Path, typer.Option(help="Ledger of the other cloud, by `ppodc audit ledger`.")
    ],
    register: RegisterFile = Path("audits.json"),
) -> None:
    """Run a cloud's part in a job again and compare every message. For the auditor.

    Exit status 0: the cloud sent what the protocol says; 1: a deviation, which is named; 3: the
    clouds contradict each other, and nothing shows which of them is right.
    """
    from ppodc.audit.bundle import Bundle
    from ppodc.audit.register import Register
    from ppodc.audit.testimony import read_testimony

    opened = Bundle(bundle)
    Register(register).admit(opened.spec.digest, opened.role)
    found = opened.check(
        read_testimony(other_ledger),
        lambda _session, step: err.print(f"step {step.number}: {step.name}"),
    )
    who = f"cloud {opened.role} in {opened.spec.name}"
    if found.deviation:
        out.print(f"DEVIATION of {who}: {found.deviation}")
        raise typer.Exit(1)
    out.print(
        f"{who}: {found.messages} messages of {found.steps} steps in {found.sessions} sessions are "
        "what the protocol sends"
    )
    if found.result is None:
        out.print("the job did not reach its result")
    for doubt in found.doubts:
        out.print(f"INCONCLUSIVE: {doubt}")
    if found.doubts:
        out.print("nothing proves which cloud is the cause: do not act on this against either")
        raise typer.Exit(3)


def _store(config: Path) -> "Store":
    from ppodc.service.config import Cloud1Config, Cloud2Config, load_any
    from ppodc.service.store import Store

    loaded = load_any(config)
    if isinstance(loaded, Cloud1Config):
        return Store.open(loaded.store, "cloud1")
    if isinstance(loaded, Cloud2Config):
        return Store.open(loaded.store, "cloud2")
    raise ConfigError(f"{config} is not the configuration of cloud 1 or cloud 2.")
