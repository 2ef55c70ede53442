"""A cloud's service as a process: what it may use, its chores in the background, its end."""

import logging
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from ppodc.service.config import CloudConfig
from ppodc.service.quotas import Quotas
from ppodc.service.store import Store
from ppodc.transport.port_guard import Limits, room_for

SECONDS = 30.0

log = logging.getLogger(__name__)


def raise_descriptor_limit() -> None:
    """A connection takes three descriptors: let there be as many as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def limits(config: CloudConfig) -> Limits:
    """Limits of owners and operators at this cloud's gateway."""
    return Limits(
        connections=room_for(config.connections),
        key_connections=config.key_connections,
        key_requests=config.key_requests,
        key_bytes=config.key_megabytes << 20,
        bytes=config.megabytes << 20,
    )


def forget_old(store: Store, quotas: Quotas) -> None:
    """Delete what has outlived its purpose, as the quotas say; the ledger notes it."""
    expired = store.removal.expire(timedelta(days=quotas.unfinished_days))
    if expired:
        log.info("%d uploads that were never finished are deleted", len(expired))
    for dataset in store.removal.past_jobs(timedelta(days=quotas.records_days)):
        store.removal.records(dataset)
        log.info("the records of %s are deleted: its job is over", dataset)
    store.removal.sweep()


@contextmanager
def regularly(*chores: Callable[[], None], seconds: float = SECONDS) -> Iterator[None]:
    """Do these at once and then every so often, until the block ends; an error is logged."""
    stopped = threading.Event()
    thread = threading.Thread(target=_work, args=(chores, stopped, seconds), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _work(chores: tuple[Callable[[], None], ...], stopped: threading.Event, seconds: float) -> None:
    while not stopped.is_set():
        for chore in chores:
            try:
                chore()
            except Exception:
                log.exception("tidying up failed; going on")
        stopped.wait(seconds)


def until_signal(ready: Callable[[], None]) -> None:
    """Block the main thread until SIGTERM or Ctrl-C; then the caller shuts down in order.

    `ready` is called once signals are handled, so that whoever it tells may stop us at once.
    Further signals do not cut the shutdown short. A signal writes a byte into a pipe and the main
    thread reads it. So a signal that comes just before the thread waits is not lost, as it would be
    with a lock or a queue, whose wait does not see a handler that has not run yet.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    ready()
    os.read(reading, 1)
