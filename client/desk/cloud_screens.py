"""The screens of whoever runs a cloud, on the cloud's own machine: health, jobs, callers.

They read the cloud's store and the health endpoint of its service, as the command does. A job that
is started here is a process of its own (`ppodc run`): it outlives the desk.
"""

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from client.desk import plots
from client.desk.agreement import kind_in_words
from client.desk.incoming import read_small
from client.desk.pages import Pages
from client.desk.screens import Visit, go, guarded, route
from ppodc.errors import BusyError, ChannelError, ConfigError, InputError, StateError, printable
from ppodc.files import private_folder
from ppodc.service.admitted import admit, callers, keys_replaced_by
from ppodc.service.config import Cloud2Config, OwnerConfig, load_any
from ppodc.service.health import Health, ask, metrics_text
from ppodc.service.invitation import Answer, read
from ppodc.service.job_state import JobState
from ppodc.service.ledger_entries import Entry
from ppodc.service.six_words import six_words
from ppodc.service.store import Role, Store
from ppodc.service.store.job_lock import job_lock

_PPODC = (sys.executable, "-P", "-m", "ppodc.cli")
_COUNTED = re.compile(r'^ppodc_requests_total\{.*outcome="([^"]*)".*\} ([0-9.e+]+)$', re.MULTILINE)
_TAIL = 4000  # characters of a job's output that a page shows
_DO = {  # state: what may be done about it
    JobState.CREATED: ("run", "seal", "cancel"),
    JobState.SEALED: ("run", "cancel"),
    JobState.FAILED: ("resume", "cancel"),
}


class CloudScreens:
    """All screens of one cloud, or of a collector."""

    def __init__(self, config_file: Path, base: str) -> None:
        loaded = load_any(config_file)
        if isinstance(loaded, OwnerConfig):
            raise ConfigError(f"{config_file} is no cloud's configuration.")
        self._file, self._config = config_file.resolve(), loaded
        self._number = 2 if isinstance(loaded, Cloud2Config) else 1
        self._title = "Collector" if loaded.role == "collector" else f"Cloud {self._number}"
        self._logs = self._file.parent / "desk"
        self.pages = Pages(base, self._title, (("/", "Overview"), ("/callers", "Callers")))
        self._answer: Answer | None = None
        self._opened: Store | None = None
        self._changing = threading.Lock()

    def routes(self) -> Sequence[BaseRoute]:
        page, job = self.pages, "/job/{name}"
        return [
            route(page, "/", self.overview),
            route(page, "/state", self.state),
            route(page, job, self.job),
            route(page, f"{job}/state", self.job_state),
            route(page, f"{job}/do", self.do, "POST"),
            route(page, "/callers", self.callers),
            guarded(page, "/answer", self.take, "PUT"),
            route(page, "/admit", self.admitted, "POST"),
        ]

    def busy(self) -> bool:
        return False

    def close(self) -> None:
        """Jobs go on by themselves."""
        with self._changing:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _store(self) -> Store:
        with self._changing:
            if self._opened is None:
                role: Role = "cloud2" if self._number == 2 else "cloud1"
                self._opened = Store.open(self._config.store, role)
            return self._opened

    # ------------------------------------------------------------------------------- overview

    def overview(self, _: Visit) -> Response:
        return self.pages.page("cloud_overview.html", here="/", **self._overview())

    def state(self, _: Visit) -> Response:
        """The part of the page that is looked up again and again."""
        return self.pages.page("cloud_state.html", **self._overview())

    def _overview(self) -> dict[str, Any]:
        health, silent, outcomes = self._health()
        store = self._store()
        jobs = [self._line(store, name) for name in store.datasets.names("")]
        figures, now = store.figures.all(), store.figures.overview()
        return {
            "title": self._title,
            "number": self._number,
            "health": health,
            "silent": silent,
            "outcomes": outcomes,
            "jobs": jobs,
            "now": now,
            "free": shutil.disk_usage(self._config.store).free,
            "figures": figures,
            "runs_jobs": self._number == 1,
        }

    def _health(self) -> tuple[Health | None, str, dict[str, int]]:
        """(what the service says, why it does not, requests by outcome)."""
        if not self._config.health:
            words = f'{self._file.name} names no health address. Add health = "127.0.0.1:9464".'
            return None, words, {}
        try:
            health, text = ask(self._config.health), metrics_text(self._config.health)
        except ChannelError as error:
            return None, str(error), {}
        outcomes: dict[str, int] = {}
        for outcome, number in _COUNTED.findall(text):
            outcomes[outcome] = outcomes.get(outcome, 0) + int(float(number))
        return health, "", dict(sorted(outcomes.items(), key=lambda item: -item[1]))

    def _line(self, store: Store, name: str) -> dict[str, Any]:
        listed, job = store.datasets.get(name), store.jobs.get(name)
        deleted = store.datasets.deleted(name)
        lost = not deleted and job.state in (JobState.PREPARING, JobState.RUNNING)
        if lost and self._number == 1:
            try:
                with job_lock(store.folder, name):
                    pass
            except BusyError:
                lost = False
        may = () if deleted or self._number == 2 else _DO.get(job.state, ())
        if lost and self._number == 1:
            may = ("resume", "cancel")
        elif job.state in (JobState.PREPARING, JobState.RUNNING) and self._number == 1:
            may = ("cancel",)
        return {
            "name": name,
            "state": "deleted" if deleted else str(job.state),
            "badge": _badge(job.state, deleted),
            "lost": lost and self._number == 1,
            "message": printable(job.message),
            "rows": listed.rows,
            "uploads": listed.uploads,
            "iteration": job.iteration,
            "pairs": job.pairs,
            "updated": job.updated,
            "may": may,
            "cancelling": job.cancel_requested,
        }

    # ----------------------------------------------------------------------------------- jobs

    def job(self, visit: Visit) -> Response:
        return self.pages.page("cloud_job.html", here="/", **self._job(visit.path["name"]))

    def job_state(self, visit: Visit) -> Response:
        """The part that follows a job; the whole page anew once other things can be done."""
        name = visit.path["name"]
        values = self._job(name)
        offered = ",".join(values["line"]["may"])
        if visit.query.get("may", offered) != offered:
            return go(self.pages, f"/job/{name}", script=True)
        return self.pages.page("cloud_job_state.html", **values)

    def _job(self, name: str) -> dict[str, Any]:
        store = self._store()
        line = self._line(store, name)
        spec = store.datasets.spec(name)
        entries = store.ledger.entries(name)
        seconds = _seconds(entries)
        return {
            "line": line,
            "digest": spec.digest,
            "kind": kind_in_words(spec),
            "plot": _plot(seconds),
            "seconds": seconds[-12:],
            "output": self._output(name),
            "number": self._number,
        }

    def do(self, visit: Visit) -> Response:
        """Start, resume, seal or cancel, in a process of its own."""
        name, what = visit.path["name"], visit.field("do")
        line = self._line(self._store(), name)
        if what not in line["may"]:
            raise StateError(f"The job of {name!r} is {line['state']}: it cannot {what} now.")
        if what == "cancel" and visit.field("name") != name:
            raise InputError("Type the whole name of the study to cancel its job for good.")
        command = ("dataset", "seal", name) if what == "seal" else (what, name)
        self._begin(name, *command)
        return go(self.pages, f"/job/{name}")

    def _begin(self, name: str, *command: str) -> None:
        log = private_folder(self._logs) / f"{name}.log"
        log.touch(mode=0o600)
        with log.open("w") as out:
            subprocess.Popen(
                [*_PPODC, *command, "--config", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # it outlives this desk
            )

    def _output(self, name: str) -> str:
        log = self._logs / f"{name}.log"
        return log.read_text(errors="replace")[-_TAIL:] if log.exists() else ""

    # -------------------------------------------------------------------------------- callers

    def callers(self, _: Visit, said: str = "") -> Response:
        known = sorted(callers(self._file, self._config).values(), key=lambda peer: peer.name)
        answer = self._answer
        return self.pages.page(
            "cloud_callers.html",
            400 if said else 200,
            here="/callers",
            known=known,
            written={*self._config.owners.values(), *self._config.operators.values()},
            answer=answer,
            words=six_words,
            old=() if answer is None else self._replaced(answer),
            said=said,
        )

    def _replaced(self, answer: Answer) -> tuple[str, ...]:
        """The keys that this one would shut out; none if it is known here already."""
        known = callers(self._file, self._config)
        if answer.public_key.encode() in known:
            return ()
        return keys_replaced_by(self._file, self._config, answer)

    async def take(self, request: Request) -> Response:
        """Open an answer file; nobody is let in yet."""
        data = await read_small(request)
        try:
            answer = read(data.decode("utf-8"), Answer)
        except UnicodeDecodeError:
            raise InputError("This file is no answer to an invitation.") from None
        self._answer = answer
        return go(self.pages, "/callers", script=True)

    def admitted(self, visit: Visit) -> Response:
        """Let the key in, once its words were compared."""
        answer = self._answer
        if answer is None or visit.field("key") != answer.public_key:
            raise InputError("Choose the answer file again.")
        if not visit.ticked("same"):
            return self.callers(visit, "Compare the six words first, by telephone.")
        if answer.role != "owner" and not visit.ticked("role"):
            return self.callers(visit, f"Decide first whether {answer.name} is to be what it asks.")
        replaced = self._replaced(answer)
        if replaced and not visit.ticked("replace"):
            return self.callers(visit, f"{answer.name} has another key here. Read what changes.")
        admit(self._file, self._config, answer, replace=bool(replaced))
        self._answer = None
        return go(self.pages, "/callers")


def _badge(state: JobState, deleted: bool) -> str:
    if deleted:
        return ""
    return {
        JobState.DONE: "good",
        JobState.RUNNING: "work",
        JobState.PREPARING: "work",
        JobState.FAILED: "stop",
        JobState.CANCELLED: "stop",
    }.get(state, "wait")


def _seconds(entries: Sequence[Entry]) -> list[tuple[int, float]]:
    """(iteration, seconds since the end of the one before), by the ledger's times."""
    ends: dict[int, datetime] = {}
    for entry in entries:
        iteration = re.search(r'"iteration":(\d+)', entry.detail)
        if iteration is not None:
            ends[int(iteration[1])] = datetime.fromisoformat(entry.time)
    return [
        (after, (ends[after] - ends[before]).total_seconds())
        for before, after in pairwise(sorted(ends))
    ]


def _plot(seconds: list[tuple[int, float]]) -> Markup | None:
    if len(seconds) < 2:
        return None
    return plots.line(seconds[-60:], "iteration", "seconds", "Seconds per iteration", zero=True)
