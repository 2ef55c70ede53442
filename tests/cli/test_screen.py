"""The display of a running job without a terminal: each line once."""

import io

from rich.console import Console

from ppodc.cli.screen import JobScreen
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
    assert printed(*told) == ["sealing", "iteration 1: assign"]


def test_a_repeated_line_is_not_printed_again(monkeypatch):
    monkeypatch.setattr("ppodc.cli.screen._QUIET_SECONDS", -1.0)
    told = (event("assign", 1), event("assign", 1), event("assign", 1, 5), event("assign", 1, 5))
    assert printed(*told) == ["iteration 1: assign", "iteration 1: assign, 5 of 24 records"]


def test_a_message_is_whole_and_once():
    words = "a worker process died, and that is more than forty characters"
    told = (event("recovering", 1, message=words), event("recovering", 1, message=words))
    assert printed(*told) == [words, "iteration 1: recovering"]
