"""The operator's end: creates a dataset at both clouds and reads what each has on record.

In a federated deployment each cloud has an operator of its own who runs this with a configuration
that names both clouds; a dataset exists only where its spec was handed in, and owners compare.
"""

from pathlib import Path

from client.both_clouds import Clouds, ListedDataset
from ppodc.errors import InputError, RefusedError
from ppodc.service.messages import LeaveOut, Named, SpecText
from ppodc.service.store.ledger import Entry
from ppodc.service.upload import Upload
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
        spec.require_owners()
        for cloud in self._clouds.all():
            cloud.call("create", SpecText(spec.canonical()), reply=Empty)
        return spec.digest

    def datasets(self) -> list[ListedDataset]:
        """All datasets of cloud 1, by name; `uploads` and `rows` are all owners'."""
        return self._clouds.datasets()

    def uploads(self, dataset: str) -> list[Upload]:
        """All uploads that either cloud has, in order of arrival at cloud 1."""
        listed: dict[str, Upload] = {}
        for cloud in self._clouds.numbers:
            for upload in self._clouds.uploads(dataset, cloud):
                listed.setdefault(upload.upload_id, upload)
        return list(listed.values())

    def leave_out(self, dataset: str, upload_id: str) -> None:
        """Take an upload out at both clouds, before sealing; again is harmless."""
        refused: list[RefusedError] = []
        clouds = self._clouds.all()
        for cloud in clouds:
            try:
                cloud.tell("leave_out", LeaveOut(dataset, upload_id))
            except RefusedError as error:
                refused.append(error)
        unknown = [error for error in refused if error.code == InputError.code]
        if len(unknown) == len(clouds) or len(unknown) < len(refused):  # one may not have had it
            raise refused[0]

    def delete(self, dataset: str, cloud: int | None = None) -> None:
        """Delete a dataset's data at both clouds, or at one; again is harmless."""
        for at in self._clouds.all() if cloud is None else [self._clouds.at(cloud)]:
            at.tell("delete", Named(dataset))

    def ledger(self, cloud: int) -> list[Entry]:
        """What cloud 1 or cloud 2 has written down of uploads and the life of datasets."""
        return self._clouds.ledger(cloud)
