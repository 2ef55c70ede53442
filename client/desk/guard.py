"""Access to the desk: one browser of one user, and no other page that it has open.

Dangers and answers, each with a test of its own:

* A page of another site, or another server of this machine, sends requests here. Every method but
  GET and HEAD needs the exact `Origin`; `Sec-Fetch-Site` must not name another site.
* A name of another site is made to point here (rebinding). `Host` must be 127.0.0.1 and the port.
* Cookies know no port. This one is bound to a random path under which all pages live, so that no
  other server of this machine receives it.
* Another user of this machine calls. Ticket and session are 256 random bits; the ticket stands in
  a file that only this user can read, and works once.
* A value turns out to be markup. Templates escape; the policy allows no inline script or style.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
COOKIE = "desk"
IDLE_SECONDS = 30 * 60.0
QUIET = "x-desk-poll"  # header of requests that no person has made
_SAFE = ("GET", "HEAD")
_POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{what} 'self'" for what in ("script-src", "style-src", "img-src", "connect-src")),
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "content-security-policy": _POLICY,
    "referrer-policy": "same-origin",  # with no-referrer, browsers post forms of Origin null
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_OPENED = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>ppodc desk</title>
<link rel="icon" href="/{place}/static/icon.svg">
<meta http-equiv="refresh" content="0; url=/{place}/"></head>
<body><p><a href="/{place}/">Open the desk</a></p></body></html>"""


class Access:
    """The secrets of one desk, and when somebody last used it."""

    def __init__(self, port: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.host = f"{HOST}:{port}"
        self.place = secrets.token_urlsafe(16)
        self._session, self._ticket = secrets.token_urlsafe(32), ""
        self._clock, self._used = clock, clock()
        self._lock = threading.Lock()
        self.new_ticket()

    @property
    def base(self) -> str:
        """The path under which all pages live."""
        return f"/{self.place}"

    @property
    def link(self) -> str:
        """The address that opens the desk, once."""
        return f"http://{self.host}/open?ticket={self._ticket}"

    def new_ticket(self) -> None:
        """Another ticket; the one before opens nothing any more."""
        with self._lock:
            self._ticket = secrets.token_urlsafe(32)

    def take_ticket(self, shown: str) -> str | None:
        """The session, for the ticket; None if it is another one or was used before."""
        with self._lock:
            if not self._ticket or not _same(shown, self._ticket):
                return None
            self._ticket = ""
        return self._session

    def knows(self, session: str) -> bool:
        """Whether this is the session that the ticket was exchanged for."""
        return _same(session, self._session)

    def use(self) -> None:
        """A person did something."""
        self._used = self._clock()

    def idle(self) -> float:
        """Seconds since then."""
        return self._clock() - self._used


class Guard:
    """Lets requests through to the application that come from the desk's own pages."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._answer(scope)
        if answer is None:
            if QUIET not in Headers(scope=scope):
                self._access.use()
            await self._app(scope, receive, guarded)
        else:
            await answer(scope, receive, guarded)

    def _answer(self, scope: Scope) -> Response | None:
        """The refusal, or the exchange of the ticket; None: the application may answer."""
        headers = Headers(scope=scope)
        if headers.getlist("host") != [self._access.host]:
            return _refusal(421, "This address is not the desk's.")
        own = f"http://{self._access.host}"
        if scope["method"] not in _SAFE and headers.getlist("origin") != [own]:
            return _refusal(403, "Only the desk's own pages may do this.")
        if scope["path"] == "/open":
            return self._open(scope)  # from a file: a browser calls that another site
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _refusal(403, "Only the desk's own pages may ask for this.")
        if not scope["path"].startswith(f"{self._access.base}/"):
            return _refusal(403, "Open the desk again: ppodc desk.")
        if not self._access.knows(_cookie(headers.get("cookie", ""))):
            return _refusal(403, "Open the desk again: ppodc desk.")
        return None

    def _open(self, scope: Scope) -> Response:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        session = self._access.take_ticket(query.get("ticket", [""])[0])
        if scope["method"] != "GET" or session is None:
            return _refusal(403, "This ticket was used before. Open the desk again: ppodc desk.")
        self._access.use()
        # A page of ours goes on from here: a browser sends a strict cookie only between own pages.
        opened = HTMLResponse(_OPENED.format(place=self._access.place))
        opened.set_cookie(
            COOKIE, session, path=f"{self._access.base}/", httponly=True, samesite="strict"
        )
        return opened


def _same(shown: str, wanted: str) -> bool:
    return hmac.compare_digest(shown.encode(), wanted.encode())


def _cookie(text: str) -> str:
    try:
        found: Any = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else str(found.value)


def _refusal(status: int, text: str) -> Response:
    return PlainTextResponse(text, status)
