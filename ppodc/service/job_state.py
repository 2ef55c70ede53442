"""The states of a job, and the one table of steps from one to the next.

created -> sealed -> preparing -> running -> done | failed | cancelled. A state is on disk before
it is acted on, so a process that was killed may have left `preparing` or `running` behind: whoever
takes over goes through `preparing` again.
"""

from enum import StrEnum

from ppodc.errors import StateError


class JobState(StrEnum):
    """The state of a dataset's job at one cloud."""

    CREATED = "created"  # owners may upload
    SEALED = "sealed"  # the records and their order are fixed
    PREPARING = "preparing"  # pairs start, shards travel, pools fill
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # `ppodc resume` goes on
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing can follow."""
        return not TRANSITIONS[self]


TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.CREATED: frozenset({JobState.SEALED, JobState.CANCELLED}),
    JobState.SEALED: frozenset(
        {
            JobState.CREATED,  # cloud 2 lacks an upload that cloud 1 had sealed
            JobState.PREPARING,
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.PREPARING: frozenset(
        {JobState.PREPARING, JobState.RUNNING, JobState.FAILED, JobState.CANCELLED}
    ),
    JobState.RUNNING: frozenset(
        {
            JobState.RUNNING,  # the next iteration
            JobState.PREPARING,  # taken over after a kill
            JobState.DONE,
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.DONE: frozenset(),
    JobState.FAILED: frozenset({JobState.PREPARING, JobState.FAILED, JobState.CANCELLED}),
    JobState.CANCELLED: frozenset(),
}


def check_transition(dataset: str, old: JobState, new: JobState) -> None:
    """Refuse a step that the table does not have."""
    if new not in TRANSITIONS[old]:
        raise StateError(f"dataset {dataset!r} is {old}; it cannot become {new}.")
