"""Commands of whoever runs a cloud: its files, its keys, its service."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ppodc.cli.log_lines import LogForm, begin_log
from ppodc.cli.options import Config1, Config2, DeploymentKind, SafeKeyBits, out
from ppodc.cli.plain_help import group

deploy = typer.Typer()
Log = Annotated[LogForm, typer.Option(help="Lines for people, or one JSON object a line.")]
cloud1 = group(help="Serve cloud 1, which takes share 1 of every record and runs the jobs.")
cloud2 = group(help="Serve cloud 2, which takes the seeds that share 2 is made from.")


@deploy.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(help="A new folder for the deployment.")],
    owners: Annotated[int, typer.Option(help="How many owners.")] = 2,
    kind: Annotated[
        DeploymentKind,
        typer.Option(help="two-cloud: exact jobs. local: one collector of perturbed reports."),
    ] = "two-cloud",
    cloud1_listen: Annotated[
        str, typer.Option(help="Address cloud 1 listens on.")
    ] = "tcp://127.0.0.1:7401",
    cloud2_listen: Annotated[
        str, typer.Option(help="Address cloud 2 listens on for owners and operators.")
    ] = "tcp://127.0.0.1:7402",
    cloud2_listen_control: Annotated[
        str, typer.Option(help="Address cloud 2 listens on for cloud 1.")
    ] = "tcp://127.0.0.1:7403",
    cloud1_endpoint: Annotated[
        str | None, typer.Option(help="Where others reach cloud 1, if not where it listens.")
    ] = None,
    cloud2_endpoint: Annotated[
        str | None, typer.Option(help="Where others reach cloud 2, if not where it listens.")
    ] = None,
    cloud2_endpoint_control: Annotated[
        str | None, typer.Option(help="Where cloud 1 reaches cloud 2, if not where it listens.")
    ] = None,
    with_paillier: Annotated[
        bool, typer.Option("--paillier", help="Offer the paillier suite too, and make its key.")
    ] = False,
    split_key: Annotated[
        bool,
        typer.Option("--split-key", help="As --paillier, but a share of its key for each cloud."),
    ] = False,
    key_bits: SafeKeyBits = 2048,
) -> None:
    """Write keys and commented configurations: a folder for each cloud, operator and owner."""
    from ppodc.service import deployment

    if kind == "local":
        alone = deployment.create_local(
            folder, owners, listen=cloud1_listen, endpoint=cloud1_endpoint
        )
        out.print(alone.describe(), markup=False)
        return
    made = deployment.create(
        folder,
        owners,
        cloud1_listen=cloud1_listen,
        cloud2_listen=cloud2_listen,
        cloud2_listen_control=cloud2_listen_control,
        cloud1_endpoint=cloud1_endpoint,
        cloud2_endpoint=cloud2_endpoint,
        cloud2_endpoint_control=cloud2_endpoint_control,
        key_bits=key_bits,
        suites=("shares", "paillier") if with_paillier or split_key else ("shares",),
        split_key=split_key,
    )
    out.print(made.describe(), markup=False)


@deploy.command("key")
def key_command(
    stem: Annotated[
        Path, typer.Argument(metavar="NAME", help="Such as keys/cloud1: makes keys/cloud1.secret.")
    ],
    with_paillier: Annotated[
        bool,
        typer.Option("--paillier", help="Cloud 2's: the paillier suite's key too."),
    ] = False,
    key_bits: SafeKeyBits = 2048,
) -> None:
    """Make the key of one party. NAME.secret stays with it, NAME.public goes to the others.

    For parties that trust nobody with their keys, instead of `ppodc init` for all.
    """
    from ppodc.service import deployment

    for path, secret in deployment.make_key(stem, key_bits if with_paillier else None):
        out.print(
            f"{path}: {'keep it secret' if secret else 'give it to the others'}", markup=False
        )


@deploy.command("split-key")
def split_key_command(
    cloud1: Annotated[Path, typer.Argument(help="New file for cloud 1's share.")],
    cloud2: Annotated[Path, typer.Argument(help="New file for cloud 2's share.")],
    key_bits: SafeKeyBits = 2048,
) -> None:
    """Deal a Paillier key as two shares, so that neither cloud decrypts alone.

    Whoever runs this is trusted: give each cloud its file and keep neither. The whole key is never
    stored, and both files together are as good as it. A cloud names its file as paillier_share.
    """
    from ppodc.service import deployment

    fingerprint = deployment.split_key((cloud1, cloud2), key_bits)
    for number, path in enumerate((cloud1, cloud2), 1):
        out.print(f"{path}: for cloud {number} alone; key {fingerprint}", markup=False)


def _serve(
    serve: Callable[[Path, Callable[[str], None]], None], config: Path, name: str, log: LogForm
) -> None:
    begin_log(log)

    def ready(endpoint: str) -> None:
        sys.stdout.write(f"{name} listens at {endpoint}; stop it with Ctrl-C or SIGTERM\n")
        sys.stdout.flush()

    serve(config, ready)


@cloud1.command("serve")
def cloud1_serve_command(config: Config1, log: Log = "text") -> None:
    """Run cloud 1's gateway: owners upload and fetch results here."""
    from cloud1.service import serve

    _serve(serve, config, "cloud1", log)


@cloud2.command("serve")
def cloud2_serve_command(config: Config2, log: Log = "text") -> None:
    """Run cloud 2: its gateway for owners, and its workers when cloud 1 runs a job."""
    from cloud2.service import serve

    _serve(serve, config, "cloud2", log)
