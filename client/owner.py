"""The owner's SDK: upload records to the clouds, and open the result.

Who learns what: the dataset's kind says what each cloud gets of an upload (k-means: t + r for cloud
1 and the seed of r for cloud 2, so that neither learns a record). All checks of the data happen
here, before anything is sent. The result comes in halves that only the owner adds up.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from client.accepted import AcceptedSpecs, Agreed
from client.both_clouds import Clouds, ListedDataset, parts_of
from client.encoded_table import EncodedTable
from client.fetched_result import JobProgress, fetch, progress_of
from client.home_rows import HomeRows
from client.ledger_heads import LedgerHeads
from client.releases import Release, Releases
from client.sending import Lost, OnSent, Receipt, Sender
from ppodc.errors import LedgerWarning, NotFoundError, OptionError
from ppodc.kinds import owner_side
from ppodc.privacy.budget import charged_for
from ppodc.records.read_table import Only
from ppodc.records.upload_form import Cloud
from ppodc.service.config import OwnerConfig
from ppodc.service.ledger_entries import Entry
from ppodc.service.messages import UploadRef
from ppodc.service.sealed_uploads import Upload
from ppodc.spec import Spec
from ppodc.transport.curve_keys import load_public

if TYPE_CHECKING:
    import pandas as pd


class Owner:
    """One owner and its connections to both clouds; usually made by `Owner.connect`.

    Parameters
    ----------
    clouds : Clouds
        Connections under this owner's key.
    config : OwnerConfig
        The owner's configuration, as read from its file.

    Attributes
    ----------
    name : str
        The owner's name in specs and ledgers.

    Examples
    --------
    >>> from ppodc import Owner
    >>> with Owner.connect("ann/owner.toml") as owner:
    ...     receipt = owner.upload("clinic", rows, spec=owner.spec("clinic"), progress=False)
    ...     start("clinic")  # at cloud 1: ppodc run clinic
    ...     result = owner.result("clinic")
    >>> receipt.rows, len(result.labels_)
    (8, 8)
    """

    def __init__(self, clouds: Clouds, config: OwnerConfig) -> None:
        self.name = config.name
        self._clouds = clouds
        self._public = config.key.with_name(f"{config.key.name}.public")
        self._sender = Sender(clouds, config)
        self._privacy = config.privacy
        self._accepted = AcceptedSpecs(config.uploads / "accepted")
        self._home = HomeRows(config.uploads / "rows")
        self._heads = LedgerHeads(config)
        self._releases = Releases(config.uploads / "releases", config.max_exact_releases)

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
        """The spec that both clouds present; `describe` says what it means."""
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
        data: "pd.DataFrame | NDArray[Any] | str | Path | EncodedTable",
        *,
        spec: Agreed | None = None,
        accept_epsilon: float | None = None,
        id_column: str = "",
        header: bool = True,
        progress: bool = True,
        replace: bool = False,
        only: bool = False,
        leave_out: bool = False,
        accept_differencing: Sequence[str] | None = (),
        on_sent: OnSent | None = None,
    ) -> Receipt:
        """Give the clouds their parts of the records; the same data again go on or change nothing.

        `spec` is what this owner agrees to (see `accept`); without it, it must have accepted the
        dataset's spec before. `header=False` is for a CSV file without a line of names. Other data
        than before add to them; with `replace` the earlier are withdrawn once these are there.
        `id_column` names rows and does not leave: `row_names` has them beside the result. In local
        jobs it names people, and each is charged by itself.
        `only` takes the columns of the spec by name and leaves further ones out. `leave_out` does
        so with rows that lack a value; the receipt counts them.
        Rows that differ a little from those in another exact job are refused (`releases`) unless
        `accept_differencing` names its dataset; None asks and notes nothing, for a trial in which
        one person is all owners.
        `on_sent` hears how many rows each cloud has; an exception of it interrupts the upload.
        """
        self.check_ledgers()
        shown = self._clouds.spec(dataset)
        given: Any = data
        if not isinstance(data, EncodedTable):
            named = "" if owner_side(shown).names_people else id_column
            given = Only(data, only, named, leave_out)
        values = self._encoded(shown, given, header, id_column)
        if spec is not None:  # once there is something to send
            self._accepted.accept(shown, spec, accept_epsilon)
        self._accepted.check(shown)
        self._check_name(shown)
        if told := owner_side(shown).doubt(len(values)):
            warnings.warn(told, stacklevel=2)
        earlier = self._by_cloud(shown)
        if accept_differencing is not None:
            counted = owner_side(shown).of(self.name).counted(values)
            self._releases.begin(
                shown, values, *counted, replace=replace, accepted=accept_differencing
            )
        with charged_for(dataset, data):
            receipt = self._sender.send(shown, values, progress=progress, on_sent=on_sent)
        if isinstance(given, Only):
            self._home.keep(receipt.upload_id, given.home, len(values))
            receipt = dataclasses.replace(receipt, left_out=given.home.left_out)
        if accept_differencing is not None:
            self._releases.sent(shown, values, receipt.upload_id)
        earlier.pop(receipt.upload_id, None)
        if replace:
            for upload_id in earlier:
                self._withdraw(shown, upload_id)
        whole = {
            upload_id: all(upload is not None and upload.committed for upload in known.values())
            for upload_id, known in earlier.items()
        }
        before = tuple(_any(known) for each, known in earlier.items() if replace or whole[each])
        lost = tuple(
            Lost(each, cloud)
            for each, known in earlier.items()
            for cloud, upload in known.items()
            if upload is None and any(other and other.committed for other in known.values())
        )
        return dataclasses.replace(
            receipt, before=before, replaced=replace and bool(before), lost=lost
        )

    def _check_name(self, spec: Spec) -> None:
        """Warn an owner whom the spec knows by another name: perhaps the key is another's."""
        if spec.owners is None or not self._public.exists():
            return
        known = spec.owners.name_of(load_public(self._public).decode("ascii"))
        if known not in (None, self.name):
            warnings.warn(
                f"dataset {spec.name!r} knows your key as {known!r}, and your configuration says "
                f"{self.name!r}. Records count as those of {known!r}. Check name and key there.",
                stacklevel=3,
            )

    def check(
        self,
        spec: Spec,
        data: "pd.DataFrame | NDArray[Any] | str | Path | Only",
        *,
        id_column: str = "",
        header: bool = True,
    ) -> int:
        """The number of rows that `upload` would take; InputError names what it would refuse.

        Nothing is sent, charged or remembered.
        """
        return len(self._encoded(spec, data, header, id_column))

    def has_accepted(self, spec: Spec) -> bool:
        """Whether this owner has agreed to this very spec."""
        return self._accepted.has(spec)

    def _encoded(self, spec: Spec, data: Any, header: bool, id_column: str) -> NDArray[np.int64]:
        if isinstance(data, EncodedTable):
            return data.under(spec)
        side = owner_side(spec).of(self.name)
        if not id_column or not side.names_people:
            return side.encode(data, header=header)
        return side.encode_people(data, id_column, self._privacy, header=header)

    def uploads(self, dataset: str) -> list[Upload]:
        """This owner's uploads that either cloud has and that were not removed there."""
        return [_any(known) for known in self._by_cloud(self._clouds.spec(dataset)).values()]

    def _by_cloud(self, spec: Spec) -> dict[str, dict[Cloud, Upload | None]]:
        """This owner's uploads by id, as each cloud has them; None where a cloud has none."""
        clouds = sorted(parts_of(spec))
        listed: dict[str, dict[Cloud, Upload | None]] = {}
        for cloud in clouds:
            for upload in self._clouds.uploads(spec.name, cloud):
                known = listed.setdefault(upload.upload_id, dict.fromkeys(clouds))
                known[cloud] = upload
        return {
            each: known
            for each, known in listed.items()
            if any(upload is not None and not upload.removed for upload in known.values())
        }

    def withdraw(self, dataset: str, upload_id: str | None = None) -> list[str]:
        """Take back one upload or all of this owner's, before sealing; their ids.

        Both clouds delete what they have of it. Interrupted, it can be repeated; an upload that one
        cloud has withdrawn does not count.
        """
        spec = self._clouds.spec(dataset)
        known = [upload.upload_id for upload in self.uploads(dataset)]
        if upload_id is not None and upload_id not in known:
            raise NotFoundError(f"dataset {dataset!r} has no upload {upload_id} of yours.")
        ids = known if upload_id is None else [upload_id]
        for each in ids:
            self._withdraw(spec, each)
        return ids

    def _withdraw(self, spec: Spec, upload_id: str) -> None:
        for cloud in sorted(parts_of(spec)):  # cloud 1 first: it says no once it is sealed
            self._clouds.at(cloud).tell("withdraw", UploadRef(upload_id))
        self._releases.withdrawn(spec, upload_id)
        self._home.forget(upload_id)

    def releases(self) -> list[Release]:
        """The exact jobs that this owner gave rows to, from its own register."""
        return self._releases.listed()

    def ledger(self, cloud: int) -> list[Entry]:
        """The ledger of a cloud: entries on this owner's datasets, the rest as hashes."""
        return self._clouds.ledger(cloud)

    def check_ledgers(self) -> None:
        """Warn if a ledger has lost entries that this owner's client saw before; note the heads.

        `upload` and `result` do it by themselves.
        """
        for told in self._heads.check(self._clouds):
            warnings.warn(told, LedgerWarning, stacklevel=3)

    def progress(self, dataset: str) -> JobProgress:
        """The progress of a dataset's job, as cloud 1 reports it."""
        return progress_of(self._clouds, dataset)

    def result(
        self,
        dataset: str,
        wait: bool = True,
        timeout: float | None = None,
        on_wait: Callable[[JobProgress], None] | None = None,
        rows: bool = True,
    ) -> Any:
        """The result as the dataset's kind opens it, with this owner's rows if they are offered.

        Waits until the job is done, at most `timeout` seconds, and reports to `on_wait` meanwhile
        how far it is; a job that failed or was cancelled is a JobEndedError. Without `rows`, what
        it tells of own rows is not fetched where the kind can do without (labels of k-means).
        """
        self.check_ledgers()
        spec = self._clouds.spec(dataset)
        self._check_name(spec)
        with_rows = rows or not spec.kind.rows_are_extra
        opened = fetch(self._clouds, spec, wait, timeout, on_wait, rows=with_rows)
        return owner_side(spec).of(self.name).open_result(opened)

    def row_names(self, dataset: str, rows: int) -> dict[str, list[str]]:
        """Columns `row` and `id` for this many own rows of a result, in its order.

        From what the uploads left in this owner's folder; empty if they left nothing.
        """
        sealed = [upload for upload in self._clouds.uploads(dataset, 1) if upload.sealed]
        return self._home.columns([upload.upload_id for upload in sealed], rows)

    def labels(
        self,
        dataset: str,
        data: "pd.DataFrame | NDArray[Any] | str | Path | Only",
        *,
        id_column: str = "",
        header: bool = True,
    ) -> NDArray[np.int64]:
        """The cluster of each of these rows, found here from the result: nothing of them is sent.

        For jobs whose clusters are public to owners; others offer labels with the result.
        """
        spec = self._clouds.spec(dataset)
        self.check(spec, data, id_column=id_column, header=header)  # before anything is fetched
        return self.labels_of(spec, self.result(dataset), data, id_column=id_column, header=header)

    def labels_of(
        self,
        spec: Spec,
        result: Any,
        data: "pd.DataFrame | NDArray[Any] | str | Path | Only",
        *,
        id_column: str = "",
        header: bool = True,
    ) -> NDArray[np.int64]:
        """The cluster of each of these rows, from a result that was fetched before."""
        values = self._encoded(spec, data, header, id_column)[:, : len(spec.schema.columns)]
        if not hasattr(result, "label"):
            raise OptionError(
                f"labels of a job of the kind {spec.job.kind} come with its result, if the spec "
                f"offers them: `ppodc result {spec.name} --labels FILE`."
            )
        labels: NDArray[np.int64] = result.label(values)
        return labels


def _any(known: Mapping[Cloud, Upload | None]) -> Upload:
    """An upload as any cloud has it that has not removed it."""
    return next(upload for upload in known.values() if upload is not None and not upload.removed)
