"""The job of a dataset in a cloud's store: its state, and the checkpoints it can go on from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import NotFoundError, StateError
from ppodc.service.job_state import JobState, check_transition
from ppodc.service.store.database import Database, utc_now
from ppodc.service.store.datasets import Datasets
from ppodc.service.store.ledger import Ledger

KEPT_CHECKPOINTS = 2

SCHEMA = """
CREATE TABLE checkpoint (
    dataset TEXT NOT NULL REFERENCES dataset (name),
    iteration INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (dataset, iteration)
) STRICT;
CREATE TABLE checkpoint_array (
    dataset TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    name TEXT NOT NULL,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (dataset, iteration, name),
    FOREIGN KEY (dataset, iteration) REFERENCES checkpoint ON DELETE CASCADE
) STRICT
"""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """The state of a dataset's job at this cloud. `updated` is UTC in ISO format."""

    state: JobState
    iteration: int
    suite: str
    pairs: int
    message: str
    cancel_requested: bool
    updated: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """This cloud's half of all that a job needs to go on after an iteration, and the stop bit.

    Which arrays there are is the kind's business. `event` and `learnt` are the ledger's words for
    what both clouds have learnt in the iteration; no event: nothing.
    """

    iteration: int
    stop: bool
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)
    event: str = "stop bit revealed"
    learnt: str = "both clouds: whether this iteration is the last"


class Jobs:
    """The part of a store that whoever runs a job fills."""

    def __init__(self, database: Database, ledger: Ledger, datasets: Datasets) -> None:
        self._database, self._ledger, self._datasets = database, ledger, datasets

    def get(self, dataset: str) -> JobInfo:
        """The job's state as last written by any process."""
        with self._database.reading() as sql:
            row = self._datasets.row(sql, dataset)
        return JobInfo(
            JobState(row["state"]),
            row["iteration"],
            row["suite"],
            row["pairs"],
            row["message"],
            bool(row["cancel_requested"]),
            row["updated"],
        )

    def transition(
        self,
        dataset: str,
        state: JobState,
        *,
        iteration: int | None = None,
        suite: str | None = None,
        pairs: int | None = None,
        message: str = "",
    ) -> JobInfo:
        """Write the next state before acting on it; what is None stays as it was.

        Resuming a failed job forgets an old wish to cancel.
        """
        with self._database.transaction() as sql:
            row = self._datasets.row(sql, dataset)
            old = JobState(row["state"])
            check_transition(dataset, old, state)
            cancel = row["cancel_requested"] and old != JobState.FAILED
            sql.execute(
                "UPDATE dataset SET state = ?, iteration = coalesce(?, iteration),"
                " suite = coalesce(?, suite), pairs = coalesce(?, pairs), message = ?,"
                " cancel_requested = ?, updated = ? WHERE name = ?",
                (state, iteration, suite, pairs, message, int(cancel), utc_now(), dataset),
            )
            return self.get(dataset)

    def begin(self, dataset: str, suite: str, pairs: int, configuration: str = "") -> None:
        """Prepare a job, and write down what runs it here: release and configuration's digest."""
        with self._database.transaction():
            self.transition(dataset, JobState.PREPARING, suite=suite, pairs=pairs)
            detail = {"release": version("ppodc"), "configuration": configuration[:16]}
            detail |= {"suite": suite, "pairs": str(pairs)} if pairs else {}
            learnt = "everybody who reads this: what runs the job at this cloud"
            self._ledger.append("job begun", dataset, detail, learnt)

    def request_cancel(self, dataset: str) -> None:
        """Ask whoever runs the job to stop it; refused when the job is over."""
        with self._database.transaction() as sql:
            state = self._datasets.state(sql, dataset)
            if state.final:
                raise StateError(f"dataset {dataset!r} is {state} already.")
            sql.execute("UPDATE dataset SET cancel_requested = 1 WHERE name = ?", (dataset,))

    def save_checkpoint(self, dataset: str, checkpoint: Checkpoint, session_id: str = "") -> None:
        """Keep this cloud's state after an iteration (the last two stay); notes what it revealed.

        `session_id` names the session that made it at both clouds: halves of two do not fit.
        """
        place = (dataset, checkpoint.iteration)
        with self._database.transaction() as sql:
            self._datasets.row(sql, dataset)
            sql.execute("DELETE FROM checkpoint WHERE dataset = ? AND iteration = ?", place)
            fields = (*place, int(checkpoint.stop), session_id)
            sql.execute("INSERT INTO checkpoint VALUES (?, ?, ?, ?)", fields)
            for name, array in checkpoint.arrays.items():
                shape = ",".join(map(str, array.shape))
                sql.execute(
                    "INSERT INTO checkpoint_array VALUES (?, ?, ?, ?, ?, ?)",
                    (*place, name, array.dtype.str, shape, array.tobytes()),
                )
            sql.execute(
                "DELETE FROM checkpoint WHERE dataset = ? AND iteration NOT IN (SELECT iteration"
                " FROM checkpoint WHERE dataset = ? ORDER BY iteration DESC LIMIT ?)",
                (dataset, dataset, KEPT_CHECKPOINTS),
            )
            if not checkpoint.event:
                return
            detail = {"iteration": checkpoint.iteration, "stop": checkpoint.stop}
            self._ledger.append(checkpoint.event, dataset, detail, checkpoint.learnt)

    def checkpoints(self, dataset: str) -> dict[int, str]:
        """The iterations that can be continued from, oldest first, each with its session id."""
        query = "SELECT iteration, session_id FROM checkpoint WHERE dataset = ? ORDER BY iteration"
        with self._database.reading() as sql:
            self._datasets.row(sql, dataset)
            return {row["iteration"]: row["session_id"] for row in sql.execute(query, (dataset,))}

    def checkpoint(self, dataset: str, iteration: int) -> Checkpoint:
        """The checkpoint of this iteration."""
        place = (dataset, iteration)
        bit = "SELECT stop FROM checkpoint WHERE dataset = ? AND iteration = ?"
        saved = "SELECT * FROM checkpoint_array WHERE dataset = ? AND iteration = ?"
        with self._database.reading() as sql:
            row = sql.execute(bit, place).fetchone()
            kept = sql.execute(saved, place).fetchall()
        if row is None:
            raise NotFoundError(f"dataset {dataset!r} has no checkpoint of iteration {iteration}.")
        arrays = {}
        for array in kept:
            shape = tuple(int(size) for size in array["shape"].split(",") if size)
            values = np.frombuffer(array["data"], np.dtype(array["dtype"]))
            arrays[array["name"]] = values.reshape(shape).copy()
        return Checkpoint(iteration, bool(row["stop"]), arrays)

    def drop_checkpoints_after(self, dataset: str, iteration: int) -> None:
        """Forget later checkpoints, before a resumed job repeats these iterations.

        Both clouds must do this before either goes on: otherwise a second kill could leave halves
        of two different attempts under the same iteration number.
        """
        with self._database.transaction() as sql:
            sql.execute(
                "DELETE FROM checkpoint WHERE dataset = ? AND iteration > ?", (dataset, iteration)
            )
