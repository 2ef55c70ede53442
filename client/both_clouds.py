"""The clouds as one party calls them, and what is asked of all alike.

Whatever both report must agree; a difference is an error that names it, never a choice.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import msgspec

from ppodc.errors import (
    AccessError,
    ChannelError,
    ConfigError,
    InputError,
    NotFoundError,
    ProtocolError,
    RefusedError,
)
from ppodc.records.upload_form import Cloud, Part
from ppodc.service.config import OwnerConfig, Remote, load
from ppodc.service.ledger_entries import Entry
from ppodc.service.messages import (
    Dataset,
    DatasetList,
    DatasetsAsk,
    KnownAs,
    LedgerAsk,
    LedgerReply,
    Named,
    SpecText,
    UploadList,
    UploadsAsk,
)
from ppodc.service.sealed_uploads import Upload
from ppodc.spec import Spec
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys


class ListedDataset(Dataset, frozen=True, kw_only=True):
    """A dataset of either cloud; `agreed`: all clouds have it, with the same spec.

    `uploads` and `rows` are the least that any cloud counts, `state` is cloud 1's. `note` says how
    the clouds differ: after one was restored from an older copy, or a deletion was interrupted.
    """

    agreed: bool
    note: str = ""

    @property
    def shown_state(self) -> str:
        """The state for people."""
        return "deleted" if self.deleted else str(self.state)


class Clouds:
    """Connections to cloud 1 and, unless it is a single server, cloud 2, under one key."""

    def __init__(self, first: Client, second: Client | None = None) -> None:
        self._by_number = {1: first} if second is None else {1: first, 2: second}

    @classmethod
    def connect(cls, config: OwnerConfig) -> "Clouds":
        """To the clouds that the configuration names and pins."""
        keys = CurveKeys.load(config.key)
        first = _connect(config.cloud1, keys, config.timeout)
        if config.cloud2 is None:
            return cls(first)
        try:
            return cls(first, _connect(config.cloud2, keys, config.timeout))
        except BaseException:
            first.close()
            raise

    @classmethod
    def from_file(cls, path: str | Path, role: str = "") -> tuple["Clouds", OwnerConfig]:
        """The clouds that a configuration names, for someone of this role, or of either."""
        config = load(path, OwnerConfig)
        if role and config.role != role:
            raise ConfigError(f"{path} is the configuration of an {config.role}, not an {role}.")
        return cls.connect(config), config

    def all(self) -> list[Client]:
        """The connections, cloud 1 first."""
        return list(self._by_number.values())

    @property
    def numbers(self) -> list[int]:
        """Which clouds there are."""
        return list(self._by_number)

    def at(self, cloud: int) -> Client:
        """The connection to this cloud."""
        if cloud not in self._by_number:
            raise ConfigError(
                f"this configuration names no cloud {cloud}: it is that of a single server."
            )
        return self._by_number[cloud]

    def __enter__(self) -> "Clouds":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up all connections."""
        for client in self.all():
            client.close()

    def datasets(self) -> list[ListedDataset]:
        """The datasets that any cloud has, by name."""
        by_cloud = {
            number: {dataset.name: dataset for dataset in _datasets(client)}
            for number, client in self._by_number.items()
        }
        names = sorted({name for listed in by_cloud.values() for name in listed})
        return [
            _together({number: listed.get(name) for number, listed in by_cloud.items()})
            for name in names
        ]

    def known_as(self, cloud: int) -> tuple[str, str]:
        """The role and the name by which a cloud knows this party's key."""
        reply = self.at(cloud).call("known_as", reply=KnownAs)[0]
        return reply.role, reply.name

    def listed(self, cloud: int) -> list[Dataset]:
        """The datasets of one cloud, by name."""
        return _datasets(self.at(cloud))

    def having(self, dataset: str) -> list[int]:
        """The clouds that have this dataset, or all of them if none has."""
        known = [n for n in self.numbers if dataset in {each.name for each in self.listed(n)}]
        return known or self.numbers

    def spec(self, dataset: str) -> Spec:
        """The spec that all clouds present; an error if they differ, or one has none."""
        specs: list[Spec] = []
        absent: dict[int, RefusedError] = {}
        for number, cloud in self._by_number.items():
            try:
                shown = cloud.call("spec", Named(dataset), reply=SpecText)[0]
                specs.append(Spec.from_bytes(shown.spec))
            except RefusedError as error:
                if error.code not in (AccessError.code, NotFoundError.code):
                    raise
                absent[number] = error
        if absent and specs:
            raise NotFoundError(
                f"dataset {dataset!r} is not at cloud {min(absent)}, which never had it or was "
                "restored from an older copy. Its operator creates it again from the same file."
            )
        if absent:
            raise absent[min(absent)]
        if len({spec.digest for spec in specs}) != 1:
            digests = ", ".join(f"cloud {i}: {s.digest[:16]}" for i, s in enumerate(specs, 1))
            raise ProtocolError(
                f"the clouds present different specs of dataset {dataset!r} ({digests}); nothing "
                "was sent. Ask their operators."
            )
        if specs[0].name != dataset:
            raise ProtocolError(f"asked for dataset {dataset!r} and was given {specs[0].name!r}.")
        return specs[0]

    def uploads(self, dataset: str, cloud: int) -> Iterator[Upload]:
        """The uploads that one cloud lists, in order of arrival: an owner's own, or all."""
        seen = 0
        while True:
            ask = UploadsAsk(dataset, seen)
            page = self.at(cloud).call("uploads", ask, reply=UploadList)[0].uploads
            if not page:
                return
            yield from page
            seen += len(page)

    def ledger(self, cloud: int, after: int = 0, pages: int | None = None) -> list[Entry]:
        """The entries of one cloud's ledger that the caller may read, at most `pages` pages."""
        entries: list[Entry] = []
        for _ in count() if pages is None else range(pages):
            ask = LedgerAsk(entries[-1].number if entries else after)
            page = self.at(cloud).call("ledger", ask, reply=LedgerReply)[0].entries
            if not page:
                break
            entries += page
        return entries


def not_admitted(config: OwnerConfig, key: Path) -> list[str]:
    """Why this key cannot be used in place of the configured one: each cloud that shuts it out."""
    reasons = []
    with Clouds.connect(msgspec.structs.replace(config, key=key)) as clouds:
        for number in clouds.numbers:
            try:
                clouds.known_as(number)
            except (ChannelError, InputError, RefusedError) as error:
                reasons.append(f"cloud {number}: {error}")
    return reasons


def _together(shown: Mapping[int, Dataset | None]) -> ListedDataset:
    """One dataset as all clouds show it, and how they differ."""
    known = {number: dataset for number, dataset in shown.items() if dataset is not None}
    first = next(iter(known.values()))
    agreed = len(known) == len(shown) and len({each.digest for each in known.values()}) == 1
    return ListedDataset(
        name=first.name,
        digest=first.digest,
        state=first.state,
        uploads=min(0 if each is None else each.uploads for each in shown.values()),
        rows=min(0 if each is None else each.rows for each in shown.values()),
        deleted=all(each.deleted for each in known.values()),
        disk=sum(each.disk for each in known.values()),
        agreed=agreed,
        note=_difference(known, len(shown)),
    )


def _difference(known: Mapping[int, Dataset], clouds: int) -> str:
    """The way in which the clouds tell different stories of a dataset, and what to do."""
    where = " and ".join(f"cloud {number}" for number in known)
    if len(known) < clouds:
        return f"only at {where}: the other cloud never had it, or was restored from an older copy"
    if len({each.digest for each in known.values()}) > 1:
        return "the clouds have different specs: create it at both from the same file"
    gone = [f"cloud {number}" for number, each in known.items() if each.deleted]
    if 0 < len(gone) < clouds:
        return f"deleted at {gone[0]} alone: delete it again to end it at both"
    counts = {number: (each.uploads, each.rows) for number, each in known.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"cloud {n} has {c[0]} of {c[1]} records" for n, c in counts.items())
        return f"uploads differ ({told}): one is under way, or a cloud was restored from a copy"
    return ""


def _connect(remote: Remote, keys: CurveKeys, timeout: float) -> Client:
    key = remote.public_key.encode()
    return Client.connect(remote.endpoint, keys, key, timeout, patient=False)


def _datasets(cloud: Client) -> list[Dataset]:
    datasets: list[Dataset] = []
    while True:
        after = datasets[-1].name if datasets else ""
        page = cloud.call("datasets", DatasetsAsk(after), reply=DatasetList)[0].datasets
        if not page:
            return datasets
        if page[0].name <= after:
            raise ProtocolError("a cloud returned the same page of datasets twice.")
        datasets += page


def parts_of(spec: Spec) -> dict[Cloud, Part]:
    """The part of an upload for each cloud; a cloud that gets nothing is left out."""
    clouds: tuple[Cloud, ...] = (2, 1)  # the small part first: a refusal costs little
    parts = {cloud: spec.form.part(cloud) for cloud in clouds}
    return {cloud: part for cloud, part in parts.items() if part is not None}
