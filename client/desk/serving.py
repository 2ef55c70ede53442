"""A desk as a process: a port of loopback, a ticket in a private file, an end after idle time."""

import asyncio
import contextlib
import os
import socket
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from client.desk.guard import HOST, IDLE_SECONDS, Access, Guard
from ppodc.errors import ChannelError
from ppodc.files import disk_errors, private_folder

_LOOK_SECONDS = 1.0
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>ppodc desk</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={link}">
</head><body><p><a href="{link}">Open the desk</a></p></body></html>
"""


def listening(port: int = 0) -> socket.socket:
    """A port of loopback, a free one unless one is wanted."""
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        own.bind((HOST, port))
    except OSError as error:
        own.close()
        raise ChannelError(f"Port {port} of {HOST} cannot be used: {error.strerror}.") from error
    return own


@contextlib.contextmanager
def ticket_file(folder: Path, access: Access) -> Iterator[Path]:
    """A page that opens the desk, readable by this user alone; gone when the block ends.

    A browser is started with its path, so that no secret stands in the list of processes.
    """
    path = private_folder(folder) / "open-desk.html"
    with disk_errors(path):
        path.unlink(missing_ok=True)  # of a desk that was killed
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(_PAGE.format(link=access.link))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


class DeskServer:
    """Serves one application until somebody closes the desk or nobody uses it."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        own: socket.socket,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`busy`: whether something is under way that an idle desk must not interrupt."""
        config = uvicorn.Config(
            Guard(app, access),
            log_level="warning",
            access_log=False,  # its lines would hold the secret path
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=5,
        )
        self._server, self._own = uvicorn.Server(config), own
        self._access, self._busy = access, busy

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve to the end; `ready` is called once the port answers."""
        asyncio.run(self._run(ready))

    def close(self) -> None:
        """End soon; from any thread."""
        self._server.should_exit = True

    async def _run(self, ready: Callable[[], None]) -> None:
        serving = asyncio.create_task(self._server.serve(sockets=[self._own]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        ready()
        while not serving.done():
            if self._access.idle() >= IDLE_SECONDS and not self._busy():
                self.close()
            await asyncio.wait([serving], timeout=_LOOK_SECONDS)
        await serving


def show(page: Path) -> bool:
    """Open the page in the user's browser; False if there is none."""
    return webbrowser.open(page.absolute().as_uri())
