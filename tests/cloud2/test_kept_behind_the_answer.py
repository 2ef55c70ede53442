"""C2 answers, then keeps an iteration: what comes next waits for that, or gets its error."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from cloud2.follower import Follower, _Session
from ppodc.errors import BudgetError, SessionLostError, StoreError
from ppodc.kmeans import steps
from ppodc.pairs.control_messages import Poll, Progress, Settle
from ppodc.service.config import Cloud2Config, load
from ppodc.service.deployment import create
from ppodc.service.job_state import JobState
from tests.harness.cloud_jobs import NAME, TwoCloudJobs, two_cloud_jobs
from tests.harness.patience import LONG
from tests.harness.thread_workers import ThreadWorkers

TICKET = bytes(16)


class Followed:
    """A job of one pair that C2 follows by requests alone; C1 is the test."""

    def __init__(self, both: TwoCloudJobs, follower: Follower) -> None:
        self.both, self.follower, self.job = both, follower, both.second
        self.session = _Session(TICKET, self.job, self.job.setup(LONG, both.keys / "pools"))
        follower._sessions[NAME] = self.session

    def work(self) -> int:
        """Both clouds do the step that comes now; its number."""
        step = self.both.first.walk.next_step()
        slots = self.both.first.walk.line(step).slots(self.both.first.plan)
        if self.session.moving is not None:
            self.session.moving.result(LONG)
        self.both.first.begin(step, 1, slots)
        if not self.job.begun(step.number):
            self.job.begin(step, 1, slots)
        for side in self.both.sides:
            assert side.wait(LONG) == (slots, {}, [])
        return step.number

    def poll(self, number: int) -> Progress:
        return self.follower.poll(Poll(TICKET, number, 0.0, True))

    def until_an_iteration(self) -> int:
        """The number of the first iteration's step; C1 has its results, and so has C2."""
        while self.both.first.walk.next_step().name != "iterate":
            assert self.poll(self.work()).committed
            self.both.first.commit()
        return self.work()


@pytest.fixture
def followed(tmp_path) -> Iterator[Followed]:
    made = create(tmp_path / "deployment", 1, insecure_key_bits=256)
    config = load(made.party("cloud2").config, Cloud2Config)
    with two_cloud_jobs(tmp_path, pairs=1) as both:
        follower = Follower(both.second.store, config, ThreadWorkers(id))
        yield Followed(both, follower)
        both.first.close()  # C2's worker does not wait for it any more
        follower.stop()


@pytest.fixture
def held(followed: Followed, monkeypatch) -> Iterator[SimpleNamespace]:
    """C2's disk waits: `writing` is set when it is asked to keep something, `go` lets it."""
    writing, go, keep = threading.Event(), threading.Event(), followed.job.commit

    def commit(*arguments):
        writing.set()
        assert go.wait(LONG)
        keep(*arguments)

    monkeypatch.setattr(followed.job, "commit", commit)
    yield SimpleNamespace(writing=writing, go=go, restore=monkeypatch.undo)
    go.set()


def test_the_answer_does_not_wait_for_the_disk(followed: Followed, held):
    held.go.set()
    number = followed.until_an_iteration()
    held.go.clear()
    answer = followed.poll(number)
    assert (answer.committed, answer.begun) == (True, True)
    assert held.writing.wait(LONG)
    assert followed.job.store.jobs.checkpoints(NAME) == {}
    with ThreadPoolExecutor(1) as caller:
        again = caller.submit(followed.poll, number)  # its answer was lost
        assert not again.done()
        held.go.set()
        repeated = again.result(LONG)
    assert (repeated.committed, repeated.begun) == (True, True)
    assert list(followed.job.store.jobs.checkpoints(NAME)) == [1]
    followed.both.first.commit()
    assert followed.poll(followed.work()).committed, "the next iteration"


def test_the_next_request_gets_the_error_of_the_disk(followed: Followed, monkeypatch):
    number = followed.until_an_iteration()

    def full(**_amounts: float) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(followed.job.store.figures, "add", full)
    assert followed.poll(number).committed
    with pytest.raises(StoreError, match="the disk is full"):
        followed.poll(number + 1)
    with pytest.raises(SessionLostError, match="could not be kept"):
        followed.poll(number)
    assert followed.job.store.jobs.checkpoints(NAME) == {}
    body = Settle(NAME, None, "failed", "the disk is full")
    followed.follower.settle(body)
    assert followed.job.store.jobs.get(NAME).state == JobState.FAILED
    with pytest.raises(SessionLostError, match="is over"):
        followed.poll(number)


def test_a_budget_that_is_spent_keeps_the_iteration_and_begins_no_other(
    followed: Followed, monkeypatch
):
    number = followed.until_an_iteration()
    monkeypatch.setattr(steps, "REPEATED", 1 - followed.job.plan.max_iter)
    assert followed.poll(number).committed
    with pytest.raises(BudgetError, match="has begun 'iterate' 1 times"):
        followed.poll(number + 1)
    assert list(followed.job.store.jobs.checkpoints(NAME)) == [1]
    again = followed.poll(number)
    assert (again.committed, again.begun) == (True, False)


def test_the_end_of_a_session_waits_for_what_is_being_kept(followed: Followed, held):
    held.go.set()
    number = followed.until_an_iteration()
    held.go.clear()
    assert followed.poll(number).committed
    followed.both.first.close()
    with ThreadPoolExecutor(1) as other:
        stopped = other.submit(followed.follower.stop)
        assert held.writing.wait(LONG)
        assert followed.job.slots, "its workers live"
        held.go.set()
        stopped.result(LONG)
    assert not followed.job.slots
    assert list(followed.job.store.jobs.checkpoints(NAME)) == [1]


def test_the_last_step_is_kept_before_the_answer(followed: Followed, monkeypatch):
    """C1 calls the job done then: C2 must have its half."""
    number = followed.until_an_iteration()
    while followed.both.first.walk.next_step().name != "labels":
        assert followed.poll(number).committed
        followed.both.first.commit()
        number = followed.work()

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(followed.job.store.results, "save", full)
        with pytest.raises(StoreError):
            followed.poll(number)
    assert not followed.job.store.results.has(NAME)
