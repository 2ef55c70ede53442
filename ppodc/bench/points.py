"""Measured points on disk: a line of JSON each, appended the moment it is known, never lost.

A point is found again by all its parameters, only on the kind of machine that measured it and only
by the code that it measured. A task may say that a point of any machine and release will do: hours
of work then outlast a change of the code. A run that is interrupted and repeated measures what is
missing. A line that a killed process left unfinished is dropped; nothing else ever is.
"""

import copy
import fcntl
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ppodc.bench import machine
from ppodc.errors import InputError

Key = dict[str, Any]
Value = dict[str, Any]
Tell = Callable[[str], None]
notices = Console(stderr=True, highlight=False, soft_wrap=True)  # how far a measurement is


class Points:
    """The points of one results file; without a file they last as long as this object."""

    def __init__(self, path: Path | None = None, *, on: str | None = None) -> None:
        self.path = path
        self._on = _here() if on is None else on
        self._found: dict[str, Value] = {}
        self._anywhere: dict[str, Value] = {}
        if path is not None and path.exists():
            self._load(path)

    def get(self, key: Key, *, anywhere: bool = False) -> Value | None:
        """Return the point with exactly these parameters, measured here and with this code.

        Or on any machine and with any code.
        """
        found = self._anywhere if anywhere else self._found
        return copy.deepcopy(found.get(_name("" if anywhere else self._on, key)))

    def add(self, key: Key, value: Value) -> Value:
        """Keep a point: on disk when this returns. A later point with the same key replaces it."""
        line = json.dumps(
            {"key": key, "value": value, "machine": self._on, "at": _now()}, sort_keys=True
        )
        if self.path is not None:
            self._append(self.path, line)
        self._keep(json.loads(line))
        return value

    def _keep(self, point: dict[str, Any]) -> None:
        value = dict(point["value"])
        self._found[_name(point["machine"], point["key"])] = value
        self._anywhere[_name("", point["key"])] = value

    def _load(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n")[:-1]  # behind the last: nothing, or a torn line
        for number, line in enumerate(lines, 1):
            try:
                self._keep(json.loads(line))
            except (ValueError, KeyError, TypeError):
                raise InputError(
                    f"line {number} of {path} is not a measured point; remove the line, or name "
                    "another results file."
                ) from None

    def _append(self, path: Path, line: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two runs may share a file
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)  # a torn line goes
            file.write(line.encode() + b"\n")
            file.flush()


@dataclass(frozen=True, slots=True)
class Task:
    """One point to measure: how to call it, what identifies it, how to get it.

    With `anywhere`, a kept point of another machine or release will do.
    """

    label: str
    key: Key
    work: Callable[[Tell], Value]
    anywhere: bool = False


def measure(title: str, tasks: Sequence[Task], points: Points) -> list[Value]:
    """The values of all tasks, in order: from the file where they are there, else measured now."""
    values: list[Value] = []
    known = 0
    try:
        with _progress(title, len(tasks)) as (tell, step):
            for task in tasks:
                value = points.get(task.key, anywhere=task.anywhere)
                if value is None:
                    tell(task.label)
                    began = time.perf_counter()
                    value = points.add(task.key, task.work(partial(_detail, tell, task.label)))
                    step(task.label, f"{time.perf_counter() - began:.1f} s")
                else:
                    known += 1
                    step(task.label, "measured before")
                values.append(value)
    except KeyboardInterrupt:
        if points.path is not None:
            kept = f"{len(values)} of {len(tasks)} points are in {points.path}"
            notices.print(f"interrupted: {kept}; repeat the command to go on.", markup=False)
        raise
    if known and points.path is not None:
        said = f"{title}: {known} of {len(tasks)} points are from {points.path}"
        notices.print(f"{said}; name another file to measure them again.", markup=False)
    return values


def measure_anew(title: str, label: str, work: Callable[[Tell], Value]) -> Value:
    """One value that is kept nowhere: every run measures it again."""
    return measure(title, [Task(label, {}, work)], Points())[0]


def _detail(tell: Tell, label: str, what: str) -> None:
    tell(f"{label}: {what}")


@contextmanager
def _progress(
    title: str, total: int, console: Console = notices
) -> Iterator[tuple[Tell, Callable[[str, str], None]]]:
    """A bar on a terminal, a line per finished point elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    if console.is_terminal:
        with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
            shown = bar.add_task(title, total=total)
            yield (
                lambda what: bar.update(shown, description=f"{title}: {what}"),
                lambda _label, _how: bar.advance(shown),
            )
        return
    done = 0

    def step(label: str, how: str) -> None:
        nonlocal done
        done += 1
        console.print(f"{title} {done}/{total}: {label} ({how})", markup=False)

    yield (lambda _: None, step)


def _here() -> str:
    this = machine.describe()
    versions = ", ".join(f"{name} {this['packages'][name]}" for name in ("numpy", "numba", "gmpy2"))
    return f"{this['processor']}, {this['cores']} cores, code {this['code']}, {versions}"


def _name(on: str, key: Key) -> str:
    return json.dumps([on, key], sort_keys=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
