"""Is a service well, and do the clouds answer? For monitors, containers and people."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppodc.cli.options import config_option, show_table
from ppodc.errors import ChannelError, ConfigError, PpodcError

if TYPE_CHECKING:
    from ppodc.service.config import CloudConfig, OwnerConfig
    from ppodc.transport.call_client import Client

health = typer.Typer()


@health.command("health")
def health_command(
    config: Annotated[
        Path, config_option("Configuration of a cloud (asks its service), owner or operator.")
    ],
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds that an owner or operator waits for the clouds.")
    ] = 3.0,
) -> None:
    """Check that a service is well or, for owners and operators, that both clouds answer.

    A cloud's service answers where `health` in its configuration says (off unless it is set); so
    this runs on the cloud's own machine. Exit status 0: all is well; 1: something is not; 2: the
    configuration cannot be asked.
    """
    from msgspec import structs

    from ppodc.service.config import OwnerConfig, load_any

    loaded = load_any(config)
    rows = (
        _of_clouds(structs.replace(loaded, timeout=timeout))
        if isinstance(loaded, OwnerConfig)
        else _of_service(config, loaded)
    )
    show_table(["what", "state"], [[what, state] for what, state, _ in rows])
    if not all(well for *_, well in rows):
        raise typer.Exit(1)


def _of_service(file: Path, config: "CloudConfig") -> list[tuple[str, str, bool]]:
    from ppodc.service.health import ask

    if not config.health:
        raise ConfigError(
            f'{file} names no `health` address. Add health = "127.0.0.1:9464" (any free port) and '
            "start the service again."
        )
    try:
        report = ask(config.health)
    except ChannelError as error:
        return [("service", str(error), False)]
    return [(name, words, words == "ok") for name, words in report.checks.items()]


def _of_clouds(config: "OwnerConfig") -> list[tuple[str, str, bool]]:
    """Ask both clouds at once."""
    from client.both_clouds import Clouds

    with Clouds.connect(config) as clouds, ThreadPoolExecutor() as threads:
        asked = [threads.submit(_asked, number, clouds.at(number)) for number in clouds.numbers]
        return [each.result() for each in asked]


def _asked(number: int, cloud: "Client") -> tuple[str, str, bool]:
    from ppodc.service.messages import DatasetList, DatasetsAsk

    began = time.monotonic()
    try:
        cloud.call("datasets", DatasetsAsk(""), reply=DatasetList)
    except PpodcError as error:
        return f"cloud {number}", str(error), False
    return f"cloud {number}", f"answers in {1000 * (time.monotonic() - began):.0f} ms", True
