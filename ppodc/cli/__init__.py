"""The command `ppodc`, in files by who types it; parties' code is loaded only when it is called."""

import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import ppodc
from ppodc.cli.advice import advice
from ppodc.cli.audit import audit
from ppodc.cli.bench import bench
from ppodc.cli.datasets import dataset
from ppodc.cli.deploy import cloud1, cloud2, deploy
from ppodc.cli.desk import desk
from ppodc.cli.health import health
from ppodc.cli.jobs import jobs
from ppodc.cli.ledger import ledger
from ppodc.cli.link import link
from ppodc.cli.link_pair import link_pair
from ppodc.cli.local import local
from ppodc.cli.options import CONFIG_VARIABLE, CONFIGURATIONS, err
from ppodc.cli.owner_keys import owner
from ppodc.cli.owners import owners
from ppodc.cli.plain_help import SectionedGroup
from ppodc.cli.privacy import budget, privacy
from ppodc.errors import ChannelError, PpodcError, ProtocolError
from ppodc.extras import named_if_missing

app = typer.Typer(
    name="ppodc",
    help=(
        "Exact k-means, totals and record linkage on secret-shared records: owners split every "
        "value between two clouds, the clouds compute without seeing a record, owners come back "
        "for the result."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    cls=SectionedGroup,
)
link.add_typer(link_pair)
for _commands in (deploy, desk, owners, jobs, ledger, advice, health, local):
    app.add_typer(_commands)
for _name, _group in {
    "cloud1": cloud1,
    "cloud2": cloud2,
    "dataset": dataset,
    "audit": audit,
    "owner": owner,
    "bench": bench,
    "privacy": privacy,
    "budget": budget,
    "link": link,
}.items():
    app.add_typer(_group, name=_name)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ppodc {ppodc.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options common to all commands."""


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    err.print(f"warning: {escape(str(message))}")


def default_config(folder: Path) -> None:
    """Let the one configuration in this folder stand for --config, unless PPODC_CONFIG is set."""
    found = [folder / name for name in CONFIGURATIONS if (folder / name).is_file()]
    if len(found) == 1:
        os.environ.setdefault(CONFIG_VARIABLE, str(found[0]))


def main() -> None:
    """Entry point: errors meant for the user come out in one line, Ctrl-C without a traceback."""
    for name in ("SIGTERM", "SIGHUP"):  # end in order: children, temporary folders
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # nohup, for one, ignores SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda got, _: sys.exit(128 + got))
    default_config(Path())
    warnings.showwarning = _print_warning
    try:
        with named_if_missing():
            app()
    except (ChannelError, ProtocolError) as error:
        err.print(f"[red]connection:[/] {escape(str(error))}")
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
