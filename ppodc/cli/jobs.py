"""Commands of whoever runs jobs at cloud 1."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppodc.cli.options import (
    Config1,
    Dataset,
    JobSuite,
    JsonFile,
    Pairs,
    on_interrupt,
    out,
    write_json,
)
from ppodc.cli.privacy import cancel_collector, run_collector

if TYPE_CHECKING:
    from master.driver import JobEnd
    from ppodc.pairs.progress import Listener
    from ppodc.service.config import Cloud1Config, CollectorConfig

jobs = typer.Typer()


def _run_job(
    config: "Cloud1Config",
    name: str,
    start: Callable[["Listener"], "JobEnd"],
    json_file: Path | None,
) -> None:
    from ppodc.cli.screen import JobScreen

    with on_interrupt(lambda: _state(config, name)), JobScreen() as screen:
        end = start(screen.show)
    write_json(json_file, end.figures())
    if end.state == "cancelled":
        out.print(f"{end.dataset}: cancelled {end.summary}".rstrip())
        return
    out.print(f"{end.dataset}: done, {end.m} records, {end.summary}")
    out.print("owners fetch the result with: ppodc result " + end.dataset)


@jobs.command("prepare")
def prepare_command(
    name: Dataset,
    config: Config1,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations to make ahead for.")] = 10,
    suite: JobSuite = None,
    pairs: Pairs = None,
) -> None:
    """Precompute randomness for a later run with the same suite and as many pairs.

    Seal the dataset first. Supplies stay on the workers' disks and serve once; a run that needs
    more makes more by itself. Of a linkage an iteration is a round of comparisons.
    """
    from master.job import prepare_job
    from ppodc.cli.screen import JobScreen
    from ppodc.service.config import Cloud1Config, load

    loaded = load(config, Cloud1Config)
    with on_interrupt(lambda: _state(loaded, name)), JobScreen() as screen:
        prepare_job(loaded, name, iterations, suite, pairs, screen.show)
    out.print(f"{name}: pools hold the supplies of {iterations} iterations")


@jobs.command("run")
def run_command(
    name: Dataset,
    config: Config1,
    suite: JobSuite = None,
    pairs: Pairs = None,
    json_file: JsonFile = None,
) -> None:
    """Run a dataset's job: seal the dataset, compute, and keep the result for its owners.

    Works from a shell and as `ray job submit -- ppodc run ...`. Ctrl-C stops it where it is;
    `ppodc resume` goes on.
    """
    from master.job import run_job
    from ppodc.service.config import Cloud1Config, load_first

    loaded = load_first(config)
    if not isinstance(loaded, Cloud1Config):
        run_collector(loaded, name, pairs, json_file)
        return
    _run_job(
        loaded, name, lambda progress: run_job(loaded, name, suite, pairs, progress), json_file
    )


@jobs.command("resume")
def resume_command(
    name: Dataset, config: Config1, pairs: Pairs = None, json_file: JsonFile = None
) -> None:
    """Continue a job that failed or was interrupted, from the last iteration both clouds have."""
    from master.job import resume_job
    from ppodc.service.config import Cloud1Config, load_first

    loaded = load_first(config)
    if not isinstance(loaded, Cloud1Config):
        run_collector(loaded, name, pairs, json_file)  # it starts anew, to the same result
        return
    _run_job(loaded, name, lambda progress: resume_job(loaded, name, pairs, progress), json_file)


@jobs.command("status")
def status_command(name: Dataset, config: Config1) -> None:
    """Show the state of a job, why it stopped, and what to do next."""
    from ppodc.service.config import load_first

    for text in _where(load_first(config), name):
        out.print(text, markup=False)


def _state(config: "Cloud1Config", name: str) -> str:
    """The state in one line."""
    return " ".join(f"{text.rstrip('.')}." for text in _where(config, name))


def _where(config: "Cloud1Config | CollectorConfig", name: str) -> list[str]:
    """Show the state of a job, its reason and possible next steps."""
    from master.job import status

    found = status(config, name)
    job = found.job
    where = f", iteration {job.iteration}" if job.iteration else ""
    state = f"{name}: {job.state}{where}; last change {job.updated}."
    return [text for text in (state, job.message, found.advice) if text]


@jobs.command("cancel")
def cancel_command(name: Dataset, config: Config1) -> None:
    """Stop a job for good. No result is revealed."""
    from master.job import cancel_job
    from ppodc.service.config import Cloud1Config, load_first

    loaded = load_first(config)
    if isinstance(loaded, Cloud1Config):
        state = cancel_job(loaded, name)
    else:
        state = cancel_collector(loaded, name)
    waiting = "" if state == "cancelled" else " (the running master stops at its next step)"
    out.print(f"{name}: {state}{waiting}")
