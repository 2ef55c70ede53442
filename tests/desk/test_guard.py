"""Every guard of the desk at the level of HTTP: each test fails when its guard is taken away."""

import queue
import re
import socket
import stat
import threading

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from client.desk.guard import IDLE_SECONDS, Access
from client.desk.incoming import read_form, receive_table
from client.desk.screens import csv_text
from client.desk.serving import TicketPage
from client.desk.start import run_desk
from ppodc.errors import InputError
from tests.desk.running import Clock, by_file, running
from tests.harness.patience import LONG, wait_for


@pytest.fixture
def desk(tmp_path):
    """A desk with one page, one form and one place for a table, under any path."""

    async def page(_: Request) -> Response:
        return PlainTextResponse("inside")

    async def form(request: Request) -> Response:
        try:
            return PlainTextResponse(str(await read_form(request)))
        except InputError as error:
            return PlainTextResponse(str(error), 400)

    async def table(request: Request) -> Response:
        await receive_table(request, tmp_path / "private" / "table.csv")
        return PlainTextResponse("taken")

    routes = [
        Route("/{place}/", page),
        Route("/{place}/form", form, methods=["POST"]),
        Route("/{place}/table", table, methods=["PUT"]),
    ]
    with running(None, app=Starlette(routes=routes)) as desk:
        desk.open()
        yield desk


def test_the_desks_own_page_is_served(desk):
    assert desk.call("GET", "/").text == "inside"
    assert desk.call("POST", "/form", b"a=1", content_type="application/x-www-form-urlencoded")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:{port}", "127.0.0.1:1"])
def test_another_host_is_refused(desk, host):
    """A name of another site that points here: rebinding."""
    assert desk.call("GET", "/", host=host.format(port=desk.port)).status == 421


def test_a_request_without_a_host_is_refused(desk):
    assert desk.call("GET", "/", host=None).status in (400, 421)


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1:{port}"],
)
def test_another_origin_cannot_write(desk, origin):
    shown = origin and origin.format(port=desk.port)
    kind = "application/x-www-form-urlencoded"
    for method, path in (("POST", "/form"), ("PUT", "/table"), ("DELETE", "/form")):
        assert desk.call(method, path, b"a=1", origin=shown, content_type=kind).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_cannot_even_read(desk, site):
    assert desk.call("GET", "/", sec_fetch_site=site).status == 403
    assert desk.call("GET", "/", sec_fetch_site="same-origin").status == 200


def test_no_page_without_the_cookie(desk):
    assert desk.call("GET", "/", cookie=None).status == 403
    assert desk.call("GET", "/", cookie="desk=guessed").status == 403
    assert desk.call("GET", "/", cookie="desk=;;=").status == 403


def test_the_cookie_is_bound_to_the_secret_path_and_hidden_from_scripts():
    with running(None, app=Starlette()) as desk:
        said = desk.open().headers["set-cookie"]
        place = re.search(r"Path=(/[^/;]+/)(;|$)", said)
        assert place is not None
        assert place[1] == f"{desk.access.base}/"
        assert len(desk.access.place) >= 22  # 128 bits
        assert "HttpOnly" in said
        assert "samesite=strict" in said.lower()


def test_outside_the_secret_path_there_is_nothing(desk):
    assert desk.raw("GET", "/", desk.headers()).status == 403
    assert desk.raw("GET", "/other/", desk.headers()).status == 403


def test_the_ticket_works_once():
    with running(None, app=Starlette()) as desk:
        link = desk.access.link
        assert desk.open().status == 200
        again = desk.raw("GET", link.removeprefix(desk.origin), desk.headers())
        assert again.status == 403
        assert "set-cookie" not in again.headers


def test_a_wrong_ticket_is_refused_and_takes_nothing_away():
    with running(None, app=Starlette()) as desk:
        for wrong in ("", "?ticket=", "?ticket=guessed", "?ticket=%ff"):
            assert desk.raw("GET", f"/open{wrong}", desk.headers()).status == 403
        assert desk.open().status == 200


def test_every_answer_carries_the_policy(desk):
    for answer in (desk.call("GET", "/"), desk.call("GET", "/", host="evil.example")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "http" not in policy
        for word in ("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"):
            assert word in policy
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers


def test_the_ticket_file_is_this_users_alone_and_goes(tmp_path):
    access = Access(1234)
    with TicketPage(tmp_path / "own", access) as ticket:
        path = ticket.path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert access.link in path.read_text()
    assert not path.exists()


def test_a_ticket_file_that_was_left_behind_is_not_written_into(tmp_path):
    """Somebody may still have the old one open."""
    left = tmp_path / "open-desk.html"
    left.write_text("old")
    left.chmod(0o644)
    kept = left.open()
    with TicketPage(tmp_path, Access(1234)) as ticket:
        assert stat.S_IMODE(ticket.path.stat().st_mode) == 0o600
        assert kept.read() == "old"
    kept.close()


def test_a_desk_that_runs_is_opened_again_instead_of_a_second_one(tmp_path, monkeypatch):
    """Whoever closed the tab starts the desk again; two desks would share one private folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    pages = queue.Queue()
    first = threading.Thread(
        target=run_desk, args=(None,), kwargs={"browser": False, "ready": lambda *p: pages.put(p)}
    )
    first.start()
    page, _ = pages.get(timeout=600)
    before = by_file(page)
    assert run_desk(None, browser=False, ready=lambda *p: pages.put(p)) is False
    assert pages.get(timeout=600) == (page, False)
    after = by_file(page)
    assert (after.port, after.access.base) == (before.port, before.access.base)
    assert after.access.link != before.access.link
    assert before.get("/") == after.get("/")
    after.post("/close")
    first.join(600)
    assert not page.exists()


def test_a_table_goes_into_the_private_folder_and_nowhere_else(desk, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    data = b"age\n" + b"41\n" * (1 << 20)  # three megabytes, more than servers keep in memory
    assert desk.put("/table", data).text == "taken"
    file = tmp_path / "private" / "table.csv"
    assert file.read_bytes() == data
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(temporary.iterdir()) == []


def test_a_table_that_breaks_off_leaves_nothing(desk, tmp_path):
    whole = {**desk.headers(), "Content-Length": "1000"}
    head = "".join(f"{name}: {value}\r\n" for name, value in whole.items())
    with socket.create_connection(("127.0.0.1", desk.port)) as caller:
        caller.sendall(f"PUT {desk.access.base}/table HTTP/1.1\r\n{head}\r\n".encode() + b"age\n41")
        file = tmp_path / "private" / "table.csv"
        wait_for(file.exists)
    wait_for(lambda: not file.exists())


def test_a_form_that_is_none_or_too_long_is_refused(desk):
    kind = "application/x-www-form-urlencoded"
    assert desk.call("POST", "/form", b"a=1", content_type="multipart/form-data").status == 400
    assert desk.call("POST", "/form", b"a=" + b"1" * (1 << 20), content_type=kind).status == 400
    assert desk.call("POST", "/form", b"a=%ff" + b"&b" * 30_000, content_type=kind).status == 400


def test_an_idle_desk_ends_by_itself():
    clock = Clock()
    with running(None, app=Starlette(), clock=clock) as desk:
        desk.open()
        clock.now += IDLE_SECONDS - 1
        assert desk.call("GET", "/").status == 404  # a visit: the time begins anew
        clock.now += IDLE_SECONDS - 1
        assert desk.call("GET", "/", x_desk_poll="1").status == 404  # a page left open is no visit
        assert desk.thread.is_alive()
        clock.now += 1
        desk.thread.join(LONG)
        assert not desk.thread.is_alive()


def test_a_desk_that_has_work_does_not_end():
    clock = Clock()
    with running(None, app=Starlette(), clock=clock) as desk:
        looked = []
        desk.server._busy = lambda: looked.append(1) or len(looked) < 3
        clock.now += 2 * IDLE_SECONDS
        desk.thread.join(LONG)
        assert len(looked) >= 3


def test_no_spreadsheet_takes_a_name_for_a_formula():
    """Column names come from the operator, names of owners from the owners."""
    rows = [["=cmd", "sum"], ["@x", -1.5], ["-2", "+A1"], ["plain", "\tx"]]
    assert csv_text(rows).splitlines() == ["'=cmd,sum", "'@x,-1.5", "-2,'+A1", "plain,'\tx"]
    assert csv_text(rows, own=1).splitlines()[1] == "@x,-1.5"
