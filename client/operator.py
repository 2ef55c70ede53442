"""The operator's end: creates a dataset at both clouds and reads what each has on record.

In a federated deployment each cloud has an operator of its own who runs this with a configuration
that names both clouds; a dataset exists only where its spec was handed in, and owners compare.
"""

from pathlib import Path

from client.both_clouds import Clouds, ListedDataset
from ppodc.service.messages import LedgerAsk, LedgerReply, SpecText
from ppodc.service.store.ledger import Entry
from ppodc.spec import Spec
from ppodc.transport.wire import Empty


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
        for cloud in self._clouds.all():
            cloud.call("create", SpecText(spec.canonical()), reply=Empty)
        return spec.digest

    def datasets(self) -> list[ListedDataset]:
        """All datasets of cloud 1, by name; `uploads` and `rows` are all owners'."""
        return self._clouds.datasets()

    def ledger(self, cloud: int) -> list[Entry]:
        """Every reveal that cloud 1 or cloud 2 has written down."""
        entries: list[Entry] = []
        while True:
            ask = LedgerAsk(entries[-1].number if entries else 0)
            page = self._clouds.at(cloud).call("ledger", ask, reply=LedgerReply)[0].entries
            if not page:
                return entries
            entries += page
