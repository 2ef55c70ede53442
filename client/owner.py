"""The owner's SDK: upload records to the clouds, and open the result.

Who learns what: the dataset's kind says what each cloud gets of an upload (k-means: t + r for cloud
1 and the seed of r for cloud 2, so that neither learns a record). All checks of the data happen
here, before anything is sent. The result comes in halves that only the owner adds up.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from client.accepted import AcceptedSpecs, Agreed
from client.both_clouds import Clouds, ListedDataset, parts_of
from client.fetched_result import JobProgress, fetch, progress_of
from client.sending import Receipt, Sender
from ppodc.errors import InputError
from ppodc.records.privacy_budget import charged_for
from ppodc.records.upload_form import NamesPeople
from ppodc.service.config import OwnerConfig
from ppodc.service.messages import UploadRef
from ppodc.service.store.ledger import Entry
from ppodc.service.upload import Upload
from ppodc.spec import Spec

if TYPE_CHECKING:
    import pandas as pd


class Owner:
    """One owner and its connections to both clouds."""

    def __init__(self, clouds: Clouds, config: OwnerConfig) -> None:
        self.name = config.name
        self._clouds = clouds
        self._sender = Sender(clouds, config)
        self._privacy = config.privacy
        self._accepted = AcceptedSpecs(config.uploads / "accepted")

    @classmethod
    def connect(cls, config: str | Path) -> "Owner":
        """The owner of this configuration file; the clouds are reached at the first call."""
        return cls(*Clouds.from_file(config, "owner"))

    def __enter__(self) -> "Owner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the connections; closing twice is harmless."""
        self._clouds.close()

    def datasets(self) -> list[ListedDataset]:
        """The datasets that this owner takes part in; `uploads` and `rows` are its own."""
        return self._clouds.datasets()

    def spec(self, dataset: str) -> Spec:
        """The spec that both clouds present; `in_words` says what it means."""
        return self._clouds.spec(dataset)

    def accept(self, dataset: str, spec: Agreed, accept_epsilon: float | None = None) -> Spec:
        """Agree to this spec of a dataset: a Spec, the Path of its file, or its digest.

        Remembered in the owner's folder; refused if the clouds present another. A spec whose
        published claim does not hold needs `accept_epsilon`: what a record really spends.
        """
        shown = self._clouds.spec(dataset)
        self._accepted.accept(shown, spec, accept_epsilon)
        return shown

    def upload(
        self,
        dataset: str,
        data: "pd.DataFrame | NDArray[Any] | str | Path",
        *,
        spec: Agreed | None = None,
        accept_epsilon: float | None = None,
        id_column: str = "",
        header: bool = True,
        progress: bool = True,
        replace: bool = False,
    ) -> Receipt:
        """Give the clouds their parts of the records; the same data again go on or change nothing.

        `spec` is what this owner agrees to (see `accept`); without it, it must have accepted the
        dataset's spec before. `header=False` is for a CSV file without a line of names. Other data
        than before add to them; with `replace` the earlier are withdrawn once these are there.
        `id_column` (local jobs) names people: each is charged by itself; the names do not leave.
        """
        shown = self._clouds.spec(dataset)
        if spec is not None:
            self._accepted.accept(shown, spec, accept_epsilon)
        self._accepted.check(shown)
        earlier = self.uploads(dataset)
        values = self._encoded(shown, data, header, id_column)
        with charged_for(dataset, data):
            receipt = self._sender.send(shown, values, progress=progress)
        before = tuple(upload for upload in earlier if upload.upload_id != receipt.upload_id)
        if replace:
            for upload in before:
                self._withdraw(shown, upload.upload_id)
        else:
            before = tuple(upload for upload in before if upload.committed)
        return dataclasses.replace(receipt, before=before, replaced=replace and bool(before))

    def _encoded(self, spec: Spec, data: Any, header: bool, id_column: str) -> NDArray[np.int64]:
        form = spec.kind.upload(spec)
        if not id_column:
            return form.encode(data, header=header)
        if not isinstance(form, NamesPeople):
            raise InputError("an id column is for jobs that spend privacy; leave it out here.")
        return form.encode_people(data, id_column, self._privacy, header=header)

    def uploads(self, dataset: str) -> list[Upload]:
        """This owner's uploads that either cloud has and that were not removed there."""
        spec = self._clouds.spec(dataset)
        listed = {
            upload.upload_id: upload
            for cloud in parts_of(spec)
            for upload in self._clouds.uploads(dataset, cloud)
            if not upload.removed
        }
        return list(listed.values())

    def withdraw(self, dataset: str, upload_id: str | None = None) -> list[str]:
        """Take back one upload or all of this owner's, before sealing; their ids.

        Both clouds delete what they have of it. Interrupted, it can be repeated; an upload that one
        cloud has withdrawn does not count.
        """
        spec = self._clouds.spec(dataset)
        known = [upload.upload_id for upload in self.uploads(dataset)]
        if upload_id is not None and upload_id not in known:
            raise InputError(f"dataset {dataset!r} has no upload {upload_id} of yours.")
        ids = known if upload_id is None else [upload_id]
        for each in ids:
            self._withdraw(spec, each)
        return ids

    def _withdraw(self, spec: Spec, upload_id: str) -> None:
        for cloud in sorted(parts_of(spec)):  # cloud 1 first: it says no once it is sealed
            self._clouds.at(cloud).tell("withdraw", UploadRef(upload_id))

    def ledger(self, cloud: int) -> list[Entry]:
        """What a cloud has written down about this owner's datasets; the rest as hashes."""
        return self._clouds.ledger(cloud)

    def progress(self, dataset: str) -> JobProgress:
        """How far the job of a dataset is, as cloud 1 tells it."""
        return progress_of(self._clouds, dataset)

    def result(
        self,
        dataset: str,
        wait: bool = True,
        timeout: float | None = None,
        on_wait: Callable[[JobProgress], None] | None = None,
    ) -> Any:
        """The result as the dataset's kind opens it, with this owner's rows if they are offered.

        Waits until the job is done, at most `timeout` seconds, and tells `on_wait` now and then
        how far it is; a job that failed or was cancelled is a JobEndedError.
        """
        spec = self._clouds.spec(dataset)
        opened = fetch(self._clouds, spec, wait, timeout, on_wait)
        return spec.kind.open_result(spec, opened)

    def labels(
        self,
        dataset: str,
        data: "pd.DataFrame | NDArray[Any] | str | Path",
        *,
        id_column: str = "",
        header: bool = True,
    ) -> NDArray[np.int64]:
        """The cluster of each of these rows, found here from the result: nothing of them is sent.

        For jobs whose clusters are public to owners; others offer labels with the result.
        """
        spec = self._clouds.spec(dataset)
        values = self._encoded(spec, data, header, id_column)[:, : len(spec.schema.columns)]
        result = self.result(dataset)
        if not hasattr(result, "label"):
            raise InputError(
                f"labels of a job of the kind {spec.job.kind} come with its result, if the spec "
                f"offers them: `ppodc result {dataset} --labels FILE`."
            )
        labels: NDArray[np.int64] = result.label(values)
        return labels
