"""The desk of whoever's configuration this is; without one, the first start."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from client.desk.guard import Access
from client.desk.invitation_screens import FirstStart
from client.desk.operator_screens import OperatorScreens
from client.desk.owner_screens import OwnerScreens
from client.desk.screens import Screens, application
from client.desk.serving import DeskServer, listening, show, ticket_file
from ppodc.service.config import OwnerConfig, load_any

Ready = Callable[[Path, bool], None]  # the page that opens the desk, and whether a browser did


def default_folder() -> Path:
    """The folder of an owner's key and configuration, unless a configuration is named."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ppodc"


def screens_of(config: Path | None, base: str) -> tuple[Screens, Path]:
    """The screens of a party and its private folder, by the role in its configuration."""
    if config is None:
        config = default_folder() / "owner.toml"
        if not config.exists():
            return FirstStart(default_folder(), base), default_folder()
    loaded = load_any(config)
    if not isinstance(loaded, OwnerConfig):
        from client.desk.cloud_screens import CloudScreens  # needs what a cloud has installed

        return CloudScreens(config, base), config.resolve().parent / "desk"
    folder = loaded.uploads / "desk"
    if loaded.role == "operator":
        return OperatorScreens(config, base), folder
    return OwnerScreens(config, base), folder


def run_desk(
    config: Path | None, *, browser: bool = True, port: int = 0, ready: Ready | None = None
) -> None:
    """Serve a desk to its end."""
    own = listening(port)
    access = Access(own.getsockname()[1])
    try:
        screens, folder = screens_of(config, access.base)
    except BaseException:
        own.close()
        raise
    server: DeskServer | None = None

    def close() -> None:
        if server is not None:
            server.close()

    server = DeskServer(application(screens, access, close), access, own, screens.busy)

    def opened(page: Path) -> None:
        shown = browser and show(page)
        if ready is not None:
            ready(page, shown)

    try:
        with ticket_file(folder, access) as page:
            server.run(partial(opened, page))
    finally:
        screens.close()
        own.close()
