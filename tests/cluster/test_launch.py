"""Workers that die before they have said anything are replaced; what cannot be had is said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ppodc.cluster import ray_head
from ppodc.cluster.workers import launch
from ppodc.errors import InputError, RayUnusableError
from tests.harness.thread_workers import ThreadWorkers, WorkerDiedError


class Greeter:
    """The first this many of all die at their first call."""

    deaths = 0
    error: Callable[[], BaseException] = WorkerDiedError

    def greet(self, slot: int) -> str:
        if Greeter.deaths > 0:
            Greeter.deaths -= 1
            raise Greeter.error()
        return f"slot {slot}"

    def cut(self) -> None: ...

    def close(self) -> None: ...


def started(deaths: int, error=WorkerDiedError) -> tuple[list[str], list[tuple[int, bool]]]:
    workers, asked = ThreadWorkers(id), []
    Greeter.deaths, Greeter.error = deaths, error

    def start(slot: int, again: bool):
        asked.append((slot, again))
        return workers.call(workers.start(Greeter), "greet", slot)

    return launch(workers, start, [4, 2], "the workers"), asked


def test_all_say_something_in_order():
    assert started(0) == (["slot 4", "slot 2"], [(4, False), (2, False)])


@pytest.mark.parametrize("deaths", [1, 2, 3, 4])
def test_those_that_die_are_started_again(deaths):
    said, asked = started(deaths)
    assert said == ["slot 4", "slot 2"]
    assert len(asked) == 2 + deaths
    assert all(again for _, again in asked[2:])


def test_not_for_ever():
    with pytest.raises(RayUnusableError, match=r"the workers cannot start: a worker process died"):
        started(100)
    assert Greeter.deaths == 94


def test_what_would_come_again_is_said_at_once():
    with pytest.raises(RayUnusableError, match=r"cannot start: no port is free"):
        started(100, lambda: InputError("no port is free."))
    assert Greeter.deaths == 98


def test_a_ray_that_does_not_start_says_why(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text(
        f"#!/bin/sh\necho >> {tmp_path}/tries; echo first >&2; echo no room for its store >&2\n"
    )
    program.chmod(0o700)
    monkeypatch.setattr(ray_head.sys, "executable", str(program))
    said = r"could not be started in 3 attempts; .* It said: no room for its store$"
    with pytest.raises(RayUnusableError, match=said):
        ray_head.LocalRay.start({})
    assert (tmp_path / "tries").read_text() == "\n" * 3


def test_a_ray_that_does_not_start_is_started_again(tmp_path, monkeypatch):
    """At the same address, which others may have been told."""
    program, tries = tmp_path / "python", tmp_path / "tries"
    program.write_text(
        f'#!/bin/sh\necho "$RAY_GCS_SERVER_PORT" >> {tries}\n'
        f"test $(wc -l < {tries}) = 3 || exit 1\n"
        'echo "127.0.0.1:$RAY_GCS_SERVER_PORT"; read end\n'
    )
    program.chmod(0o700)
    monkeypatch.setattr(ray_head.sys, "executable", str(program))
    head = ray_head.LocalRay.begin({"cloud1": 1}, port=7)
    with head:
        head.ready()
        folder = Path(head.environment["RAY_AUTH_TOKEN_PATH"]).parent
        assert folder.exists()
        assert head.address == "127.0.0.1:7"
    assert tries.read_text() == "7\n" * 3
    assert not folder.exists()
