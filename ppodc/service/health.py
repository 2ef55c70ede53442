"""Is this service alive, and can it do its work? Over HTTP, on loopback, for whoever operates it.

`/live`: the process answers. `/ready`: every check holds, or 503; the body names the checks.
`/metrics`: figures for Prometheus (see `metrics`, which says what they tell). Nothing can be
changed here, and nobody else's machine reaches it: give it to a monitor by a tunnel or an agent.
Whoever is on this machine may call: a few are heard at a time, the oldest of more is dropped, and
one is answered after the other, so that nobody keeps the service from its work or a monitor out.
"""

import contextlib
import json
import logging
import shutil
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ppodc.errors import ChannelError, PpodcError
from ppodc.service.metrics import ServiceMetrics
from ppodc.service.store import Store
from ppodc.transport.gateway import Gateway

_LEAST_FREE_BYTES = 256 << 20
_ANSWER_SECONDS = 10.0
_MOST_CALLERS = 16

log = logging.getLogger(__name__)

Check = Callable[[], str]  # says what is wrong, or nothing


@dataclass(frozen=True, slots=True)
class Health:
    """A service's health: whether all is well, and the result of each check."""

    ready: bool
    checks: dict[str, str]


def service_checks(store: Store, gateways: Mapping[str, Gateway]) -> dict[str, Check]:
    """The checks of every cloud: its ports, its store, and room for uploads."""
    ports = {f"port for {who}": partial(_port_fault, door) for who, door in gateways.items()}
    return {**ports, "store": partial(_store_fault, store), "disk": partial(_disk_fault, store)}


def look(checks: Mapping[str, Check]) -> Health:
    """Do all checks."""
    faults = {name: check() for name, check in checks.items()}
    words = {name: fault or "ok" for name, fault in faults.items()}
    return Health(not any(faults.values()), words)


@contextlib.contextmanager
def health_endpoint(
    address: str, metrics: ServiceMetrics, checks: Mapping[str, Check]
) -> Iterator[None]:
    """Answer at HOST:PORT until the block ends; without an address nothing listens."""
    if not address:
        yield
        return
    host, _, port = address.rpartition(":")
    handler = _handler(metrics, checks)
    try:
        server = _Server((host, int(port)), handler)
    except OSError as error:
        raise ChannelError(f"cannot listen at {address} for health: {error.strerror}.") from error
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    log.info("health at http://%s/live, /ready and /metrics", address)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(address: str) -> Health:
    """The health that this endpoint reports; ChannelError if it does not answer."""
    body = _fetch(address, "/ready")
    try:
        told = json.loads(body)
        return Health(bool(told["ready"]), {str(k): str(v) for k, v in told["checks"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ChannelError(f"what answers at {address} is no service of ppodc.") from error


def metrics_text(address: str) -> str:
    """The figures of the service with this endpoint; ChannelError if it does not answer."""
    return _fetch(address, "/metrics").decode("utf-8", "replace")


def _fetch(address: str, path: str) -> bytes:
    request = urllib.request.Request(f"http://{address}{path}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by a proxy
    try:
        with opener.open(request, timeout=_ANSWER_SECONDS) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return error.read()
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise ChannelError(
            f"nothing answers at {address} ({reason}): the service is down, or was started before "
            "its configuration named this address."
        ) from error


class _Server(ThreadingHTTPServer):
    """A thread for each caller, of whom there are few: a further one costs the oldest its place."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._callers: OrderedDict[int, Any] = OrderedDict()  # sockets by their number
        self._changing = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changing:
            self._callers[id(request)] = request
            if len(self._callers) > _MOST_CALLERS:
                _, oldest = self._callers.popitem(last=False)
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end and closes it
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._changing:
            self._callers.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log every error, except that a caller went away."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            log.error("cannot answer for health", exc_info=error)


def _handler(metrics: ServiceMetrics, checks: Mapping[str, Check]) -> type[BaseHTTPRequestHandler]:
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        timeout = _ANSWER_SECONDS  # for a caller that says nothing

        def do_GET(self) -> None:
            if self.path == "/live":
                self._answer(200, b"alive\n", "text/plain")
                return
            with one_at_a_time:
                self._looked()

        def _looked(self) -> None:
            if self.path == "/ready":
                health = look(checks)
                body = json.dumps({"ready": health.ready, "checks": health.checks}) + "\n"
                self._answer(200 if health.ready else 503, body.encode(), "application/json")
            elif self.path == "/metrics":
                self._answer(200, metrics.text(), "text/plain; version=0.0.4; charset=utf-8")
            else:
                self._answer(404, b"ask for /live, /ready or /metrics\n", "text/plain")

        def log_message(self, *_: Any) -> None:
            """A monitor asks every few seconds: nothing to write down."""

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _port_fault(gateway: Gateway) -> str:
    return "" if gateway.alive else "does not serve"


def _store_fault(store: Store) -> str:
    try:
        store.figures.overview()
    except PpodcError as error:
        return str(error)
    return ""


def _disk_fault(store: Store) -> str:
    free = shutil.disk_usage(store.folder).free
    if free >= _LEAST_FREE_BYTES:
        return ""
    return f"{free >> 20} MB are left; uploads and jobs will fail soon. Make room."
