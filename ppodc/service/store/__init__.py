"""A cloud's store: datasets and uploads, the job's state, its checkpoints and its result.

One folder per cloud, for that cloud's user alone (0700): `store.sqlite` in WAL mode and the chunk
files. The gateway, the master and tools may have it open at the same time. A call that returned is
on disk; a process killed in between leaves the state before or after the call, nothing else.

Who learns what: a store holds its own cloud's shares, states and halves only. Every stop bit, and
every half of a result that is kept here or handed to an owner, is in the ledger.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ppodc.files import private_folder
from ppodc.service.store.audits import Audits
from ppodc.service.store.database import Database
from ppodc.service.store.datasets import Datasets
from ppodc.service.store.figures import Figures
from ppodc.service.store.jobs import Checkpoint, JobInfo, Jobs
from ppodc.service.store.ledger import Ledger
from ppodc.service.store.removal import Removal
from ppodc.service.store.results import Results
from ppodc.service.store.seals import Seals
from ppodc.service.store.uploads import Uploads
from ppodc.service.store.versions import Role, prepare

__all__ = ["Checkpoint", "JobInfo", "Role", "Store"]


class Store:
    """A cloud's store: one object for each idea, all on one database."""

    def __init__(self, folder: Path, role: Role, database: Database) -> None:
        self.folder, self.role = folder, role
        self._database = database
        self.ledger = Ledger(database)
        self.datasets = Datasets(database, self.ledger)
        self.uploads = Uploads(
            database, self.ledger, self.datasets, folder / "uploads", 1 if role == "cloud1" else 2
        )
        self.seals = Seals(database, self.ledger, self.datasets, self.uploads)
        self.jobs = Jobs(database, self.ledger, self.datasets)
        self.results = Results(database, self.ledger, self.datasets, self.seals)
        self.audits = Audits(database, self.ledger, self.uploads, folder)
        self.figures = Figures(database)
        self.removal = Removal(database, self.ledger, self.datasets, self.uploads)

    @classmethod
    def open(
        cls, folder: str | Path, role: Role, database_type: type[Database] = Database
    ) -> "Store":
        """The store in this folder, made if it is not there; refused if of the other cloud."""
        path = private_folder(Path(folder))
        database = database_type(path / "store.sqlite")
        try:
            prepare(database, role)
        except BaseException:
            database.close()
            raise
        return cls(path, role, database)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """All that the block writes is on disk together when it ends, or none of it."""
        with self._database.transaction():
            yield

    def close(self) -> None:
        """Close the store; closing twice is harmless."""
        self._database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
