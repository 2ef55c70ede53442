"""The base of an owner's screens: the connections, the studies, and the private folder."""

import threading
from dataclasses import dataclass
from pathlib import Path

import msgspec

from client.both_clouds import Clouds, ListedDataset
from client.desk.agreement import Standing, standing
from client.desk.drafts import Draft
from client.desk.pages import Pages
from client.fetched_result import JobProgress
from client.owner import Owner
from ppodc.errors import InputError, printable
from ppodc.service.config import OwnerConfig, load
from ppodc.service.job_state import JobState
from ppodc.spec import Spec

LINKS = (("/", "Studies"), ("/ledger", "Who learnt what"), ("/key", "My key"))
_PATIENCE = 10.0  # seconds that a page waits for a cloud


@dataclass(frozen=True, slots=True)
class Study:
    """A study as both clouds present it; no spec if they differ."""

    listed: ListedDataset
    progress: JobProgress
    spec: Spec | None
    at: Standing

    @property
    def open(self) -> bool:
        """Whether owners may still send rows."""
        return self.progress.state == JobState.CREATED


class OwnerDesk:
    """One owner at its desk. Records lie in `folder` until they are sent."""

    def __init__(self, config_file: Path, base: str) -> None:
        self.config = load(config_file, OwnerConfig)
        self.folder = self.config.uploads / "desk"
        self.pages = Pages(base, self.config.name, LINKS)
        self._connected: tuple[Owner, Clouds] | None = None
        self._changing = threading.Lock()
        self._drafts: dict[str, Draft] = {}

    @property
    def alone(self) -> bool:
        """Whether there is one collector instead of two clouds."""
        return self.config.cloud2 is None

    def owner(self) -> Owner:
        """The connections of pages; uploads have their own."""
        return self._both()[0]

    def clouds(self) -> Clouds:
        """Both clouds as pages ask them."""
        return self._both()[1]

    def _both(self) -> tuple[Owner, Clouds]:
        with self._changing:
            if self._connected is None:
                self._connected = self._connect(min(self.config.timeout, _PATIENCE))
            return self._connected

    def connect(self) -> Owner:
        """Connections of their own."""
        return self._connect(self.config.timeout)[0]

    def _connect(self, timeout: float) -> tuple[Owner, Clouds]:
        config = msgspec.structs.replace(self.config, timeout=timeout)
        clouds = Clouds.connect(config)
        return Owner(clouds, config), clouds

    def close(self) -> None:
        """Give up the connections of pages."""
        with self._changing:
            if self._connected is not None:
                self._connected[0].close()
                self._connected = None

    def draft(self, name: str) -> Draft:
        """The table that is about to be sent to a study."""
        with self._changing:
            if name not in self._drafts:
                self._drafts[name] = Draft(self.folder, name, self.config.name)
            return self._drafts[name]

    def studies(self) -> list[Study]:
        """All studies that name this owner."""
        return [self._study(listed) for listed in self.owner().datasets()]

    def study(self, name: str) -> Study:
        """One of them; InputError if there is none."""
        for listed in self.owner().datasets():
            if listed.name == name:
                return self._study(listed)
        raise InputError(f"You take part in no study {printable(name)!r}.")

    def _study(self, listed: ListedDataset) -> Study:
        owner = self.owner()
        progress = owner.progress(listed.name)
        spec = owner.spec(listed.name) if listed.agreed else None
        accepted = spec is not None and owner.has_accepted(spec)
        return Study(listed, progress, spec, standing(listed, progress, accepted))

    def accepted(self, name: str) -> Spec:
        """The spec of a study that this owner has agreed to; InputError if it has not."""
        spec = self.owner().spec(name)
        if not self.owner().has_accepted(spec):
            raise InputError("You have not agreed to this study yet. Read it and agree first.")
        return spec
