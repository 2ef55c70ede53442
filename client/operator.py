"""The operator's end: creates a dataset at both clouds and reads what each has on record.

In a federated deployment each cloud has an operator of its own who runs this with a configuration
that names both clouds; a dataset exists only where its spec was handed in, and owners compare.
"""

import warnings
from pathlib import Path

from client.both_clouds import Clouds, ListedDataset
from ppodc.errors import NotFoundError, RefusedError, SpecError
from ppodc.service.ledger_entries import Entry
from ppodc.service.messages import LeaveOut, Named, SpecText
from ppodc.service.sealed_uploads import Upload
from ppodc.spec import Spec
from ppodc.transport.wire import Empty


class Operator:
    """Connections to both clouds under the operator's key; usually made by `Operator.connect`.

    Parameters
    ----------
    clouds : Clouds
        Connections under the operator's key.

    Examples
    --------
    >>> from ppodc import Operator
    >>> with Operator.connect("operator/operator.toml") as operator:
    ...     digest = operator.create(other)  # another spec with the same owners
    ...     [dataset.name for dataset in operator.datasets()]
    ['clinic', 'other']
    >>> digest == other.digest
    True
    """

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

    def create(self, spec: Spec, *, single_records: bool = False) -> str:
        """Create the dataset at both clouds; the same again is harmless. Returns its digest.

        A spec by which owners may learn of a single record is refused unless `single_records`. A
        guarantee that protects nobody is refused or warned of.
        """
        missing = spec.job.missing_threshold
        if missing and not single_records:
            raise SpecError(
                f"the spec has no {missing} above 1, so that owners may learn a single record. Set "
                f"{missing} = 5 or more in [job], or accept it with --accept-single-records."
            )
        if told := spec.job.doubt(spec.require_owners().least):
            warnings.warn(told, stacklevel=2)
        for step in ("may_create", "create"):  # a refusal must not leave it at one cloud alone
            for cloud in self._clouds.all():
                cloud.call(step, SpecText(spec.canonical()), reply=Empty)
        return spec.digest

    def datasets(self) -> list[ListedDataset]:
        """All datasets of both clouds, by name; `uploads` and `rows` are all owners'."""
        return self._clouds.datasets()

    def uploads(self, dataset: str) -> list[Upload]:
        """All uploads that either cloud has, in order of arrival at cloud 1."""
        return [upload for upload, _ in self.uploads_by_cloud(dataset)]

    def uploads_by_cloud(self, dataset: str) -> list[tuple[Upload, dict[int, Upload]]]:
        """All uploads that either cloud has, each with what every cloud has of it."""
        listed: dict[str, dict[int, Upload]] = {}
        for cloud in self._clouds.having(dataset):
            for upload in self._clouds.uploads(dataset, cloud):
                listed.setdefault(upload.upload_id, {})[cloud] = upload
        return [(next(iter(known.values())), known) for known in listed.values()]

    @property
    def clouds(self) -> list[int]:
        """Which clouds there are."""
        return self._clouds.numbers

    def leave_out(self, dataset: str, upload_id: str) -> None:
        """Take an upload out at both clouds, before sealing; again is harmless."""
        refused: list[RefusedError] = []
        clouds = self._clouds.all()
        for cloud in clouds:
            try:
                cloud.tell("leave_out", LeaveOut(dataset, upload_id))
            except RefusedError as error:
                refused.append(error)
        unknown = [error for error in refused if error.code == NotFoundError.code]
        if len(unknown) == len(clouds) or len(unknown) < len(refused):  # one may not have had it
            raise refused[0]

    def delete(self, dataset: str, cloud: int | None = None) -> None:
        """Delete a dataset's data at both clouds, or at one; again is harmless."""
        for at in self._clouds.having(dataset) if cloud is None else [cloud]:
            self._clouds.at(at).tell("delete", Named(dataset))

    def ledger(self, cloud: int) -> list[Entry]:
        """The ledger of cloud 1 or 2: uploads and the life of datasets."""
        return self._clouds.ledger(cloud)
