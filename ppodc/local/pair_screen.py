"""What a person sees of `ppodc run-pair`: steps, progress, and the centres at the end."""

from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from ppodc.local.pair import Outcome
from ppodc.records.encode import decode_centres
from ppodc.records.schema import Schema


class PairScreen:
    """Progress of both clouds; on a pipe it prints plain lines instead of bars."""

    def __init__(self, rows: int) -> None:
        self.console = Console(highlight=False)
        self._rows = rows
        self._iteration = 1
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(
            *columns,
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._pools: dict[str, TaskID] = {}
        self._records: TaskID | None = None

    def __enter__(self) -> "PairScreen":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def event(self, who: str, told: dict[str, Any]) -> None:
        """Show one event of the run; only C1's are shown once both are at work."""
        if who == "keys":
            self.console.print(f"making keys ({told['bits']} bits) ...")
        elif who == "uploaded":
            self.console.print(f"2 owners gave shares of {told['rows']} records and went home")
        elif told["event"] == "prepared":
            self._prepared(who, told)
        elif who == "cloud1" and told["event"] == "assigned":
            self._assigned(told["rows"])
        elif who == "cloud1" and told["event"] == "iteration":
            ends = "centres stand still" if told["stop"] else "centres moved"
            self.console.print(f"iteration {told['number']}: {ends}")
            self._iteration = told["number"] + 1
            self._records = None

    def _prepared(self, who: str, told: dict[str, Any]) -> None:
        if who not in self._pools:
            self._pools[who] = self._progress.add_task(
                f"offline: randomness at {who}", total=told["total"]
            )
        self._progress.update(self._pools[who], completed=told["done"])

    def _assigned(self, rows: int) -> None:
        if self._records is None:
            self._records = self._progress.add_task(
                f"iteration {self._iteration}: records", total=self._rows
            )
        self._progress.advance(self._records, rows)

    def show(self, outcome: Outcome, schema: Schema) -> None:
        """The centres in real units, beside plaintext k-means."""
        plain = outcome.reference
        ours = decode_centres(outcome.sums, outcome.sizes, schema)
        theirs = decode_centres(plain.sums, plain.sizes, schema)
        table = Table(title="Centres (this run | plaintext k-means)")
        table.add_column("cluster", justify="right")
        table.add_column("records", justify="right")
        for name in schema.names:
            table.add_column(name, justify="right")
        for h, size in enumerate(outcome.sizes):
            cells = [f"{a:.4g} | {b:.4g}" for a, b in zip(ours[h], theirs[h], strict=True)]
            table.add_row(str(h), str(size), *cells)
        self.console.print(table)
        end = "converged" if outcome.converged else "stopped by max_iter"
        self.console.print(f"iterations: {outcome.n_iter} ({end})")
        self.console.print(f"identical: {'yes' if outcome.identical else 'NO'}")
