"""The desk of whoever's configuration this is; without one, the first start."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from client.desk.guard import Access
from client.desk.invitation_screens import FirstStart
from client.desk.operator_screens import OperatorScreens
from client.desk.owner_screens import OwnerScreens
from client.desk.screens import Screens, application
from client.desk.serving import DeskServer, TicketPage, asked_again, listening, only_desk, show
from ppodc.errors import BusyError
from ppodc.service.config import OwnerConfig, load_any

Ready = Callable[[Path, bool], None]  # the page that opens the desk, and whether a browser did


def default_folder() -> Path:
    """The folder of an owner's key and configuration, unless a configuration is named."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ppodc"


def screens_of(config: Path | None) -> tuple[Callable[[str], Screens], Path]:
    """The maker of a party's screens below a path, and the party's private folder."""
    if config is None:
        config = default_folder() / "owner.toml"
        if not config.exists():
            return partial(FirstStart, default_folder()), default_folder()
    loaded = load_any(config)
    if not isinstance(loaded, OwnerConfig):
        from client.desk.cloud_screens import CloudScreens  # needs what a cloud has installed

        return partial(CloudScreens, config), config.resolve().parent / "desk"
    folder = loaded.uploads / "desk"
    return partial(OperatorScreens if loaded.role == "operator" else OwnerScreens, config), folder


def run_desk(
    config: Path | None, *, browser: bool = True, port: int = 0, ready: Ready | None = None
) -> bool:
    """Serve a desk to its end; False if it runs already, whose page is opened once more."""
    make, folder = screens_of(config)

    def opened(page: Path) -> None:
        shown = browser and show(page)
        if ready is not None:
            ready(page, shown)

    with ExitStack() as stack:
        try:
            stack.enter_context(only_desk(folder))
        except BusyError:
            page = asked_again(folder)
            if page is None:
                return run_desk(config, browser=browser, port=port, ready=ready)
            opened(page)
            return False
        own = stack.enter_context(listening(port))
        access = Access(own.getsockname()[1])
        screens = make(access.base)
        stack.callback(screens.close)
        ticket = stack.enter_context(TicketPage(folder, access))

        def close() -> None:
            server.close()

        app = application(screens, access, close)
        server = DeskServer(app, access, own, screens.busy, ticket.look)
        server.run(partial(opened, ticket.path))
    return True
