"""The operator's end: creates a dataset at both clouds and reads what each has on record.

In a federated deployment each cloud has an operator of its own who runs this with a configuration
that names both clouds; a dataset exists only where its spec was handed in, and owners compare.
"""

from dataclasses import dataclass
from pathlib import Path

from client.both_clouds import Clouds
from ppodc.service.job_state import JobState
from ppodc.service.messages import LedgerAsk, LedgerReply, SpecText
from ppodc.service.store.ledger import Entry
from ppodc.spec import Spec
from ppodc.transport.wire import Empty


@dataclass(frozen=True, slots=True)
class Listed:
    """A dataset as cloud 1 shows it, and whether cloud 2 has the same spec."""

    name: str
    digest: str
    state: JobState
    uploads: int
    rows: int
    agreed: bool


class Operator:
    """Connections to both clouds under the operator's key."""

    def __init__(self, clouds: Clouds) -> None:
        self._clouds = clouds

    @classmethod
    def connect(cls, config: str | Path) -> "Operator":
        """The operator of this configuration file; the clouds are reached at the first call."""
        return cls(Clouds.from_file(config, "operator")[0])

    def __enter__(self) -> "Operator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the connections."""
        self._clouds.close()

    def create(self, spec: Spec) -> str:
        """Create the dataset at both clouds; the same again is harmless. Returns its digest."""
        for cloud in (self._clouds.first, self._clouds.second):
            cloud.call("create", SpecText(spec.canonical()), reply=Empty)
        return spec.digest

    def datasets(self) -> list[Listed]:
        """All datasets of cloud 1, by name."""
        return [
            Listed(
                first.name,
                first.digest,
                first.state,
                first.uploads,
                first.rows,
                second is not None and second.digest == first.digest,
            )
            for first, second in self._clouds.datasets()
        ]

    def ledger(self, cloud: int) -> list[Entry]:
        """Every reveal that cloud 1 or cloud 2 has written down."""
        asked = self._clouds.first if cloud == 1 else self._clouds.second
        found: list[Entry] = []
        while True:
            ask = LedgerAsk(found[-1].number if found else 0)
            page = asked.call("ledger", ask, reply=LedgerReply)[0].entries
            if not page:
                return found
            found += [
                Entry(e.number, e.time, e.event, e.dataset, e.detail, e.previous, e.hash)
                for e in page
            ]
