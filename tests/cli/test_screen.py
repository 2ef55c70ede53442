"""The display of a running job without a terminal: each line once."""

import io
from importlib import import_module

from rich.console import Console

from ppodc.cli.screen import JobScreen, in_words
from ppodc.pairs.plan import BaseStep
from ppodc.pairs.progress import Event


def event(phase: str, iteration: int = 0, done: int = 0, message: str = "") -> Event:
    return Event("d", phase, iteration, 9, done, 24, message=message)


def printed(*events: Event) -> list[str]:
    console = Console(file=io.StringIO(), width=40, highlight=False)
    with JobScreen(console) as screen:
        for each in events:
            screen.show(each)
    return console.file.getvalue().splitlines()


def test_each_phase_once():
    told = (event("sealing"), event("sealing"), event("assign", 1), event("assign", 1, 5))
    told = (*told, event("done", 1, 24))  # which the command says itself
    assert printed(*told) == ["sealing the dataset", "iteration 1: assigning records"]


def test_a_repeated_line_is_not_printed_again(monkeypatch):
    monkeypatch.setattr("ppodc.cli.screen._QUIET_SECONDS", -1.0)
    told = (event("assign", 1), event("assign", 1), event("assign", 1, 5), event("assign", 1, 5))
    assert printed(*told) == [
        "iteration 1: assigning records",
        "iteration 1: assigning records, 5 of 24 records",
    ]


def test_a_message_is_whole_and_once():
    words = "a worker process died, and that is more than forty characters"
    told = (event("recovering", 1, message=words), event("recovering", 1, message=words))
    assert printed(*told) == [words, "iteration 1: recovering"]


def test_every_step_of_a_job_has_words():
    """Steps by the names that their classes give them, in all kinds of jobs."""
    for room in (
        "kmeans.steps",
        "kmeans.private.plan",
        "totals.plan",
        "linkage.plan",
        "pairs.plan",
    ):
        import_module(f"ppodc.{room}")
    pending, names = [BaseStep], set()
    while pending:
        step = pending.pop()
        pending += step.__subclasses__()
        names.add(getattr(step, "name", ""))
    names.discard("")
    assert len(names) > 10
    assert {name for name in names if in_words(event(name)) == name} == set()
