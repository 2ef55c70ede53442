"""The desk in a real browser: an owner's whole path, the guards, the keyboard, how it looks.

PPODC_SHOTS=FOLDER keeps a picture of every screen, light and dark, wide and narrow.
"""

import csv
import http.server
import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from client.desk.cloud_screens import CloudScreens
from client.desk.invitation_screens import FirstStart
from client.desk.notebook import html_of
from client.desk.operator_screens import OperatorScreens
from client.desk.owner_screens import OwnerScreens
from client.desk.pages import number
from ppodc.service.config import OwnerConfig, load
from ppodc.service.invitation import Invitation
from ppodc.totals.result import totals
from tests.desk.browser import chromium, launch, opened
from tests.desk.page_checks import check_page
from tests.desk.running import running
from tests.desk.world import OWNERS, SPECS, names_of, patients, rows_of, spec_of, write_table

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
SHOTS = os.environ.get("PPODC_SHOTS", "")
HOSTILE = '"><img src=x onerror="document.title=1"><script>document.title=2</script>'


@pytest.fixture(scope="module")
def browser():
    chromium()
    with playwright.sync_playwright() as started:
        launched = launch(started.chromium)
        yield launched
        launched.close()


@contextmanager
def owner_tab(browser, world, folder, name=OWNERS[0], **options):
    with (
        running(partial(OwnerScreens, world.config(name))) as desk,
        opened(browser, desk, folder, **options) as tab,
    ):
        yield tab
        tab.check()


def looked_at(tab, name):
    """Check a screen as everybody meets it, and keep its picture if that is wanted.

    A window of 1280 pixels at 200 % zoom is laid out as one of 640.
    """
    tab.page.set_viewport_size({"width": 640, "height": 450})
    check_page(tab.page, f"{name} zoomed", thorough=False)
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            tab.page.set_viewport_size({"width": width, "height": 900})
            tab.page.emulate_media(color_scheme=scheme)
            thorough = (width, scheme) in ((1280, "light"), (400, "dark"))
            check_page(tab.page, f"{name} {width} {scheme}", thorough=thorough)
            if SHOTS:
                file = Path(SHOTS) / f"{name}-{width}-{scheme}.png"
                tab.page.screenshot(path=file, full_page=True)
    tab.page.set_viewport_size({"width": 1280, "height": 900})
    tab.page.emulate_media(color_scheme="light")


def agree_and_send(tab, spec, table, rows, look=lambda *_: None):
    page = tab.page
    tab.go(f"/study/{spec.name}/agree")
    look(tab, "owner-agree")
    assert page.get_by_role("button", name="I agree").is_disabled()
    page.get_by_label("Last eight characters").fill(spec.digest[-8:])
    page.get_by_label("I may agree").check()
    page.get_by_role("button", name="I agree").click()
    tab.choose("Choose a file", table)
    page.get_by_role("button", name=f"Go on with {rows} rows").wait_for()
    look(tab, "owner-table")
    page.get_by_role("button", name=f"Go on with {rows} rows").click()
    page.get_by_role("button", name=f"Send {rows} rows").wait_for()
    look(tab, "owner-send")
    page.get_by_role("button", name=f"Send {rows} rows").click()
    page.get_by_role("heading", name="Sent", exact=True).wait_for()


@pytest.mark.parametrize("kind", [kind for kind in SPECS if kind != "join-totals"])
def test_an_owner_from_agreement_to_result(kind, browser, tmp_path, request):
    world = request.getfixturevalue("single" if kind == "local" else "clouds")
    spec = world.create(spec_of(kind))
    table = write_table(tmp_path / "export.csv", spec, rows_of(kind, 0))
    with world.owner(OWNERS[1]) as other:
        strict = tmp_path / "other.csv"
        names = names_of(spec, 1)
        with strict.open("w", newline="") as file:
            csv.writer(file).writerows([names, *rows_of(kind, 1)])
        other.upload(spec.name, strict, spec=spec)
    with owner_tab(browser, world, tmp_path) as tab:
        look = looked_at if kind == "linkage" else lambda *_: None
        agree_and_send(tab, spec, table, 24, look)
        tab.page.get_by_role("link", name="Wait for the result").click()
        tab.page.get_by_role("heading", name="How far the study is").wait_for()
        look(tab, "owner-wait")
        world.run(spec.name)
        tab.page.get_by_role("heading", name=f"Result of {spec.name}").wait_for()  # by itself
        with world.owner(OWNERS[0]) as owner:
            result = owner.result(spec.name, wait=False)
        text = tab.page.content()
        if hasattr(result, "cluster_centers_"):
            centres = np.asarray(result.cluster_centers_, float)
            for value in centres[~np.isnan(centres)]:
                assert f">{number(float(value), 6)}</td>" in text
        if "totals" not in kind:
            tab.choose("Choose the table that you sent", table)
            ids = tab.page.get_by_label("Column that names your rows")
            ids.wait_for()
            tab.page.wait_for_load_state("load")
            with tab.page.expect_navigation():
                ids.select_option("case_no")
            tab.page.get_by_role("link", name="Your rows with what was found").wait_for()
            with tab.page.expect_download() as taken:
                tab.page.get_by_role("link", name="Your rows with what was found").click()
            rows = list(csv.reader(Path(taken.value.path()).read_text().splitlines()))
            assert [row[0] for row in rows] == ["case_no", *(f"N-{i}" for i in range(24))]
        looked_at(tab, f"owner-result-{kind}")


def test_every_other_screen(browser, clouds, tmp_path):
    spec = clouds.create(replace(spec_of("kmeans"), name="watched"))
    for place, name in enumerate(OWNERS):
        with clouds.owner(name) as owner:
            owner.upload("watched", patients(30, place), spec=spec)
    clouds.create(replace(spec_of("private-kmeans"), name="next-study"))
    clouds.run("watched")
    with owner_tab(browser, clouds, tmp_path / "owner") as tab:
        for path, name in (("/", "studies"), ("/ledger", "ledger"), ("/key", "key")):
            tab.go(path)
            looked_at(tab, f"owner-{name}")
        tab.go("/study/next-study/agree")
        looked_at(tab, "owner-agree-epsilon")
        tab.go("/key")
        tab.page.get_by_role("button", name="Make a new key").click()
        tab.page.get_by_role("button", name="Take up the new key").wait_for()
        looked_at(tab, "owner-key-next")
    for party, screens, paths in (
        ("operator", OperatorScreens, ("/", "/new", "/new?kind=linkage", "/new?kind=join",
                                       "/invite", "/study/watched", "/ledger", "/key")),
        ("cloud1", CloudScreens, ("/", "/job/watched", "/job/next-study", "/callers")),
    ):  # fmt: skip
        with (
            running(partial(screens, clouds.config(party))) as desk,
            opened(browser, desk, tmp_path / party) as tab,
        ):
            for path in paths:
                tab.go(path)
                looked_at(tab, party + path.replace("/", "-").replace("?kind=", "-"))
            if party == "cloud1":  # an answer with the owner's new key
                tab.choose("Answer file", clouds.config(OWNERS[0]).parent / "north.answer")
                tab.page.get_by_role("button", name="Admit without a restart").wait_for()
                looked_at(tab, "cloud1-callers-replace")
            tab.check()


def test_the_first_start(browser, clouds, tmp_path):
    config = load(clouds.config("north"), OwnerConfig)
    file = tmp_path / "invitation.ppodc"
    file.write_text(Invitation(cloud1=config.cloud1, cloud2=config.cloud2).to_toml())
    with (
        running(lambda base: FirstStart(tmp_path / "own", base)) as desk,
        opened(browser, desk, tmp_path) as tab,
    ):
        page = tab.page
        tab.choose("Invitation file", file)
        page.get_by_label("With whom").fill("south")
        looked_at(tab, "first-start")
        page.get_by_label("All six words").check()
        page.get_by_label("The name of your organisation").fill("newcomer")
        page.get_by_role("button", name="Make my key").click()
        page.get_by_role("link", name="Save the answer").wait_for()
        tab.check()


def test_a_new_study_follows_the_typing(browser, clouds, tmp_path):
    with (
        running(partial(OperatorScreens, clouds.config("operator"))) as desk,
        opened(browser, desk, tmp_path) as tab,
    ):
        tab.go("/new?kind=totals")
        page = tab.page
        page.get_by_label("Name", exact=True).fill("typed-study")
        page.get_by_label("Name of owner 1").fill("north")
        page.get_by_label("Public key of owner 1").fill("n" * 40)
        page.get_by_label("Name of owner 2").fill("south")
        page.get_by_label("Public key of owner 2").fill("s" * 40)
        page.get_by_text("Owners: north, south").wait_for()
        page.get_by_label("Lowest value of column 1").fill("500")
        page.get_by_text("low must be less than high").wait_for()
        tab.check()


# --------------------------------------------------------------------------------------- guards


class _Other(http.server.BaseHTTPRequestHandler):
    """Another server of this machine."""

    cookies: list

    def do_GET(self):
        self.cookies.append(self.headers.get("cookie"))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<p>another page")

    def log_message(self, *_):
        """Not to be seen."""


@pytest.fixture
def other():
    handler = type("Handler", (_Other,), {"cookies": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", handler.cookies
    server.shutdown()
    server.server_close()


def test_other_pages_get_no_cookie_and_cannot_act(browser, clouds, tmp_path, other):
    address, cookies = other
    with (
        running(partial(OwnerScreens, clouds.config(OWNERS[0]))) as desk,
        opened(browser, desk, tmp_path) as tab,
    ):
        page = tab.page.context.new_page()
        page.goto(address)
        assert cookies == [None] * len(cookies)
        assert len(cookies) >= 1
        target = f"{desk.origin}{desk.access.base}/close"
        with page.expect_event("requestfailed"):  # the answer, 403, is hidden as well
            page.evaluate(
                "u => fetch(u, {method: 'POST', mode: 'no-cors', credentials: 'include'})"
                ".catch(e => 0)",
                target,
            )
        page.goto(address)
        page.evaluate(
            "u => { const f = document.createElement('form'); f.method = 'post'; f.action = u;"
            " document.body.append(f); f.submit(); }",
            target,
        )
        page.get_by_text("Only the desk's own pages").wait_for()
        assert desk.thread.is_alive()


def test_a_name_that_points_here_is_refused(browser, clouds):
    with running(partial(OwnerScreens, clouds.config(OWNERS[0]))) as desk:
        rebound = launch(browser.browser_type, "--host-resolver-rules=MAP evil.example 127.0.0.1")
        answer = rebound.new_page().goto(f"http://evil.example:{desk.port}{desk.access.base}/")
        assert answer.status == 421
        rebound.close()


def test_the_ticket_opens_one_browser(browser, clouds, tmp_path):
    with running(partial(OwnerScreens, clouds.config(OWNERS[0]))) as desk:
        link = desk.access.link
        with opened(browser, desk, tmp_path):
            second = browser.new_context().new_page()
            assert second.goto(link).status == 403
            assert second.goto(f"{desk.origin}{desk.access.base}/").status == 403


def test_hostile_names_and_values_stay_text(browser, clouds, tmp_path):
    spec = spec_of("totals")
    first = replace(spec.schema.columns[0], name=HOSTILE)
    schema = replace(spec.schema, columns=(first, *spec.schema.columns[1:]))
    clouds.create(replace(spec, name="hostile", schema=schema))
    with clouds.owner(OWNERS[0]) as owner:
        owner.accept("hostile", owner.spec("hostile"))
    table = tmp_path / "t.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows(
            [[HOSTILE, "pressure", "glucose", "\u202efdp"], [1, 2, HOSTILE, 4]]
        )
    with owner_tab(browser, clouds, tmp_path) as tab:
        tab.go("/study/hostile/table")
        tab.choose("Choose a file", table)
        tab.page.get_by_role("heading", name="Columns").wait_for()
        assert tab.page.title() == "Your table - ppodc desk"
        assert tab.page.locator("main img, main script").count() == 0
        assert HOSTILE in tab.page.locator("main").inner_text()


def test_a_study_whose_names_are_markup_stays_text_to_its_report(browser, clouds, tmp_path):
    """An operator's column names and words, on every screen of owner, operator and cloud."""
    spec = spec_of("kmeans")
    columns = tuple(replace(c, name=f"{HOSTILE}{c.name}") for c in spec.schema.columns)
    spec = clouds.create(replace(spec, name="markup", schema=replace(spec.schema, columns=columns)))
    for place, name in enumerate(OWNERS):
        with clouds.owner(name) as owner:
            owner.upload("markup", patients(20, place), spec=spec)
    clouds.run("markup")
    paths = [f"/study/markup/{step}" for step in ("agree", "table", "send", "wait", "result")]
    for party, screens, seen in (
        (OWNERS[0], OwnerScreens, ("/", *paths, "/ledger?all=yes")),
        ("operator", OperatorScreens, ("/", "/study/markup", "/new")),
        ("cloud1", CloudScreens, ("/", "/job/markup")),
    ):
        with (
            running(partial(screens, clouds.config(party))) as desk,
            opened(browser, desk, tmp_path / party) as tab,
        ):
            for path in seen:
                tab.go(path)
                check_text(tab.page)
            if party == OWNERS[0]:
                report = tmp_path / "report.html"
                report.write_text(desk_text(desk, tab, "/study/markup/report.html"))
                tab.page.goto(report.as_uri())  # no policy of the desk protects it any more
                check_text(tab.page)
                assert HOSTILE in tab.page.locator("main").inner_text()
            tab.check()


def check_text(page):
    """Nothing of the hostile name became an element, and nothing ran."""
    assert page.locator("main img, main script").count() == 0
    assert page.title() not in ("1", "2")


def desk_text(desk, tab, path):
    """A file of the desk, as the tab's browser gets it."""
    return tab.page.request.get(f"{desk.origin}{desk.access.base}{path}").text()


def test_what_a_page_smuggles_in_is_not_run(browser, clouds, tmp_path):
    """The policy itself: a handler that got into the page all the same is not run."""
    with (
        running(partial(OwnerScreens, clouds.config(OWNERS[0]))) as desk,
        opened(browser, desk, tmp_path) as tab,
    ):
        refused = tab.page.evaluate(
            """() => new Promise(resolve => {
                const told = e => resolve(e.effectiveDirective), body = document.body;
                document.addEventListener('securitypolicyviolation', told);
                body.insertAdjacentHTML('beforeend', '<a onclick="document.title=3">x</a>');
                body.lastElementChild.click();
            })"""
        )
        assert refused == "script-src-attr"
        assert tab.page.title() != "3"


NOTEBOOK = """<!doctype html><style>body { background: #111; color: #eee; }
.cell tbody tr:nth-child(odd) { background: #000; } .cell td, .cell th { text-align: left; }
</style><div class="cell">"""


def test_a_notebook_of_another_scheme_leaves_it_readable(browser):
    """Its colours for text and tables are not mixed with ours."""
    spec = spec_of("totals")
    html = html_of(totals(spec, 4, [1000, 2000, 4000], [10**6, 2 * 10**6, 4 * 10**6]))
    page = browser.new_page(color_scheme="light")
    page.set_content(f"{NOTEBOOK}{html}</div>")
    cell = page.get_by_role("cell", name="27.5", exact=True)
    style = "(e, what) => getComputedStyle(e)[what]"
    assert cell.evaluate(style, "color") == "rgb(20, 33, 42)"  # ink on paper
    assert cell.locator("..").evaluate(style, "backgroundColor") == "rgba(0, 0, 0, 0)"
    assert cell.evaluate(style, "textAlign") == "right"
    page.close()


# ------------------------------------------------------------------------------------- keyboard


def test_agreeing_by_keyboard_alone(browser, clouds, tmp_path):
    spec = clouds.create(replace(spec_of("totals"), name="by-keyboard"))
    with owner_tab(browser, clouds, tmp_path) as tab:
        page = tab.page
        tab.go("/study/by-keyboard/agree")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the page"

        def tab_to(wanted):
            for _ in range(60):
                page.keyboard.press("Tab")
                focused = page.evaluate(
                    "[document.activeElement.id, document.activeElement.name,"
                    " document.activeElement.textContent.trim()].join('|')"
                )
                if wanted in focused:
                    return
            raise AssertionError(f"{wanted} cannot be reached")

        tab_to("d8|")
        page.keyboard.type(spec.digest[-8:])
        tab_to("|may|")
        page.keyboard.press("Space")
        tab_to("I agree")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Your table").wait_for()
        with clouds.owner(OWNERS[0]) as owner:
            assert owner.has_accepted(spec)
