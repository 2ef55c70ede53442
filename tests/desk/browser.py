"""A real Chromium for tests of the desk; skipped, with the reason, where there is none."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from client.desk.serving import TicketPage
from tests.desk.running import RunningDesk
from tests.harness.patience import LONG

_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT = 1000 * LONG  # milliseconds


def chromium() -> str:
    """The browser of this machine; the test is skipped without one."""
    named = os.environ.get("PPODC_CHROMIUM", "")
    found = named or shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if not found:
        pytest.skip("no Chromium here: apt-get install chromium, or set PPODC_CHROMIUM")
    return found


def launch(kind: Any, *flags: str) -> Any:
    """A browser of this kind of Playwright's."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    return kind.launch(executable_path=chromium(), args=[*_FLAGS, *sandbox, *flags], timeout=WAIT)


@dataclass
class Tab:
    """A page, what it asked for and what its console complained of."""

    page: Any
    desk: RunningDesk
    asked: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(f"{self.desk.origin}{self.desk.access.base}{path}")

    def choose(self, label: str, file: Path) -> None:
        """Choose a file, once the page's script listens."""
        self.page.get_by_label(label).wait_for()
        self.page.wait_for_load_state("load")
        self.page.get_by_label(label).set_input_files(file)

    def check(self) -> None:
        """Nothing left loopback, and the console is silent."""
        assert self.faults == []
        away = [url for url in self.asked if not url.startswith((self.desk.origin + "/", "file:"))]
        assert away == []


@contextmanager
def opened(browser: Any, desk: RunningDesk, folder: Path, **options: Any) -> Iterator[Tab]:
    """The desk in a new window, opened by its ticket file as the command does."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, reduced_motion="reduce", **options
    )
    context.set_default_timeout(WAIT)
    page = context.new_page()
    tab = Tab(page, desk)
    page.on("request", lambda request: tab.asked.append(request.url))
    page.on("pageerror", lambda error: tab.faults.append(str(error)))
    page.on("console", lambda said: tab.faults.append(said.text) if said.type == "error" else None)
    try:
        with TicketPage(folder, desk.access) as ticket:
            page.goto(ticket.path.as_uri())
            page.wait_for_url(f"**/{desk.access.place}/")
        yield tab
    finally:
        context.close()
