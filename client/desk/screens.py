"""Screens: functions of a visit, run in a thread, whose faults become a page."""

import csv
import io
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from client.desk.faults import fault_of
from client.desk.guard import QUIET, Access
from client.desk.incoming import Form, read_form
from client.desk.pages import HERE, Pages
from ppodc.errors import PpodcError, StateError

NEXT = "X-Desk-Next"  # where a page goes after something that a script has asked for


@dataclass(frozen=True, slots=True)
class Visit:
    """One request: the names in its path, what its query asks, and the fields of its form."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Form = field(default_factory=dict)
    quiet: bool = False

    def field(self, name: str, default: str = "") -> str:
        """The first value of a field of the form."""
        return self.form.get(name, [default])[0].strip()

    def ticked(self, name: str) -> bool:
        """Whether a box of the form is ticked."""
        return bool(self.form.get(name))


Screen = Callable[[Visit], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


class Screens(Protocol):
    """All screens of one party."""

    pages: Pages

    def routes(self) -> Sequence[BaseRoute]:
        """Below the desk's secret path."""

    def busy(self) -> bool:
        """Whether something is under way that must not be cut short."""

    def close(self) -> None:
        """Give up connections, and delete what is not to stay."""


def route(pages: Pages, path: str, screen: Screen, method: str = "GET") -> Route:
    """A screen at a path."""

    async def endpoint(request: Request) -> Response:
        form = await read_form(request) if method == "POST" else {}
        quiet = QUIET in request.headers
        visit = Visit(request.path_params, request.query_params, form, quiet)
        return await run_in_threadpool(screen, visit)

    return guarded(pages, path, endpoint, method)


def guarded(pages: Pages, path: str, endpoint: Endpoint, method: str) -> Route:
    """A route whose errors become a page, or a line for the script that asked."""

    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except PpodcError as error:
            fault = fault_of(error)
            if method == "PUT":
                return PlainTextResponse(f"{fault.title}. {fault.what} {fault.todo}", fault.status)
            name = "fault_part.html" if QUIET in request.headers else "fault.html"
            return pages.page(name, fault.status if name == "fault.html" else 200, fault=fault)

    return Route(path, answered, methods=[method])


def go(pages: Pages, path: str, *, script: bool = False) -> Response:
    """To another page of this desk; `script`: it was asked for by the page's script."""
    if script:
        return PlainTextResponse("", headers={NEXT: pages.base + path})
    return RedirectResponse(pages.base + path, 303)


def download(data: bytes | str, name: str, kind: str) -> Response:
    """A file to keep; its name is made of letters that every system takes."""
    safe = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name)
    disposition = f'attachment; filename="{safe.encode("ascii", "replace").decode()}"'
    return Response(data, media_type=kind, headers={"content-disposition": disposition})


def csv_text(rows: Sequence[Sequence[Any]], *, own: int = 0) -> str:
    """Rows as CSV below their headings, which no spreadsheet takes for formulas.

    The first `own` columns are the reader's own text and stay as they are below the heading.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_no_formula(each) for each in rows[0]])
    for row in rows[1:]:
        writer.writerow([*row[:own], *(_no_formula(each) for each in row[own:])])
    return out.getvalue()


def _no_formula(cell: Any) -> Any:
    """Names come from others: columns from operators, owners from each other."""
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def application(screens: Screens, access: Access, close: Callable[[], None]) -> Starlette:
    """The desk of one party; `close` ends it."""
    pages = screens.pages

    def closed(_: Visit) -> Response:
        if screens.busy():
            raise StateError("Something is being sent. Wait for its end, or pause it first")
        close()
        return pages.page("closed.html")

    async def missing(_: Request, __: Exception) -> Response:
        return pages.page("missing.html", 404)

    inside = [
        *screens.routes(),
        route(pages, "/close", closed, "POST"),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    return Starlette(routes=[Mount(access.base, routes=inside)], exception_handlers={404: missing})
