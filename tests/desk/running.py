"""A desk that runs in a thread, and a caller that sends exactly the headers it is told to."""

import http.client
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from client.desk.guard import HOST, Access
from client.desk.screens import Screens, application
from client.desk.serving import DeskServer, listening
from tests.harness.patience import LONG


class Clock:
    """Time that stands still until a test moves it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class RunningDesk:
    """`call` sends what an honest page would, unless headers say otherwise."""

    port: int
    access: Access
    server: DeskServer
    thread: threading.Thread
    cookie: str = ""
    clock: Clock = field(default_factory=Clock)

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.port}"

    def raw(self, method: str, path: str, headers: dict, body=None) -> Answer:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=LONG)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def open(self) -> Answer:
        """Exchange the ticket, as a browser does."""
        answer = self.raw("GET", self.access.link.removeprefix(self.origin), self.headers())
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def headers(self) -> dict:
        own = {"Host": f"{HOST}:{self.port}", "Origin": self.origin}
        return {**own, "Cookie": self.cookie} if self.cookie else own

    def call(self, method: str, path: str, body=None, **headers) -> Answer:
        """At a path of the desk; `headers` with None leaves one out."""
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        whole = {key.lower(): value for key, value in self.headers().items()} | changed
        return self.raw(method, self.access.base + path, whole, body)

    def get(self, path: str) -> str:
        answer = self.call("GET", path)
        assert answer.status == 200, answer.text
        return answer.text

    def post(self, path: str, **fields) -> Answer:
        pairs = [
            (name, each)
            for name, value in fields.items()
            for each in (value if isinstance(value, list) else [value])
        ]
        kind = "application/x-www-form-urlencoded"
        return self.call("POST", path, urlencode(pairs).encode(), content_type=kind)

    def put(self, path: str, data: bytes | Path) -> Answer:
        body = data.read_bytes() if isinstance(data, Path) else data
        return self.call("PUT", path, body)


class _Ticket:
    """Address of another process's desk, read from its ticket file."""

    def __init__(self, file: Path) -> None:
        self.link = file.read_text().partition("url=")[2].partition('"')[0]
        self.base = ""


def by_file(file: Path) -> RunningDesk:
    """The desk of another process, opened by its ticket file."""
    ticket = _Ticket(file)
    desk = RunningDesk(urlsplit(ticket.link).port, ticket, None, None)
    ticket.base = desk.open().text.partition("0; url=")[2].partition('"')[0].rstrip("/")
    return desk


@contextmanager
def running(make_screens, *, clock: Clock | None = None, app=None):
    """A desk of these screens, which `make_screens` makes for a path, or of an application."""
    own, clock = listening(), clock or Clock()
    port = own.getsockname()[1]
    access = Access(port, clock)
    screens: Screens | None = None if make_screens is None else make_screens(access.base)
    closed = threading.Event()
    made = app if screens is None else application(screens, access, closed.set)
    busy = (lambda: False) if screens is None else screens.busy
    server = DeskServer(made, access, own, busy)
    ready = threading.Event()
    thread = threading.Thread(target=server.run, args=(ready.set,))
    thread.start()
    assert ready.wait(LONG)
    desk = RunningDesk(port, access, server, thread, clock=clock)
    ender = threading.Thread(target=lambda: (closed.wait(), server.close()), daemon=True)
    ender.start()
    try:
        yield desk
    finally:
        closed.set()
        server.close()
        thread.join()
        own.close()
        if screens is not None:
            screens.close()
