"""Is a service well, and do the clouds answer? For monitors, containers and people."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppodc.cli.options import show_table
from ppodc.errors import ChannelError, InputError, PpodcError

if TYPE_CHECKING:
    from ppodc.service.config import CloudConfig, OwnerConfig

health = typer.Typer()


@health.command("health")
def health_command(
    config: Annotated[
        Path, typer.Option(help="Configuration of a cloud (asks its service), owner or operator.")
    ],
) -> None:
    """Tell whether a service is well, or, for owners and operators, whether both clouds answer.

    A cloud's service answers where `health` in its configuration says (off unless it is set); so
    this runs on the cloud's own machine. Exit status 0: all is well; 1: something is not; 2: the
    configuration cannot be asked.
    """
    from ppodc.service.config import OwnerConfig, load_any

    loaded = load_any(config)
    rows = _of_clouds(loaded) if isinstance(loaded, OwnerConfig) else _of_service(config, loaded)
    show_table(["what", "state"], [[what, state] for what, state, _ in rows])
    if not all(well for *_, well in rows):
        raise typer.Exit(1)


def _of_service(file: Path, config: "CloudConfig") -> list[tuple[str, str, bool]]:
    from ppodc.service.health import ask

    if not config.health:
        raise InputError(
            f'{file} names no `health` address. Add health = "127.0.0.1:9464" (any free port) and '
            "start the service again."
        )
    try:
        told = ask(config.health)
    except ChannelError as error:
        return [("service", str(error), False)]
    return [(name, words, words == "ok") for name, words in told.checks.items()]


def _of_clouds(config: "OwnerConfig") -> list[tuple[str, str, bool]]:
    from client.both_clouds import Clouds
    from ppodc.service.messages import DatasetList, DatasetsAsk

    rows = []
    with Clouds.connect(config) as clouds:
        for number in clouds.numbers:
            began = time.monotonic()
            try:
                clouds.at(number).call("datasets", DatasetsAsk(""), reply=DatasetList)
                state = f"answers in {1000 * (time.monotonic() - began):.0f} ms"
                rows.append((f"cloud {number}", state, True))
            except PpodcError as error:
                rows.append((f"cloud {number}", str(error), False))
    return rows
