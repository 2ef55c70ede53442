"""Whole audited jobs in this process: both clouds with stores, owners, a master; then audits."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from ppodc.audit.bundle import Bundle, export
from ppodc.audit.replay import Verdict
from ppodc.audit.testimony import Testimony, testimony
from ppodc.service.store import Store
from ppodc.spec import Spec
from tests.campaigns import faults
from tests.campaigns.fault_points import Fate, Fault
from tests.campaigns.fault_schedules import Schedule
from tests.campaigns.fault_world import World

ROLES = ("cloud1", "cloud2")


class AuditedJob:
    """One job, run to its end, whatever faults strike; its folder stays."""

    def __init__(
        self, folder: Path, spec: Spec, tables: list[np.ndarray], *, pairs: int = 1, fate=()
    ) -> None:
        self.campaign = faults.Campaign(folder)
        spec = replace(spec, audit=True)
        self.schedule = Schedule(0, spec, "shares", pairs, 0, tuple(tables), tuple(fate))
        self.fate = Fate(fate)
        configs = self.campaign._config1, self.campaign._config2
        shared = [msgspec.structs.replace(one, silent_supplies=True) for one in configs]
        self.world = World(*shared, folder / "world", self.fate, spec.name)
        self.verdict = faults.Verdict(0)
        self._bundles = 0

    def run(self) -> "AuditedJob":
        try:
            self.campaign.play(self.world, self.schedule, self.verdict)
        finally:
            self.world.close()
        return self

    @property
    def name(self) -> str:
        return self.schedule.spec.name

    def store(self, cloud: int) -> Store:
        return self.world.store(ROLES[cloud - 1])

    def bundle(self, cloud: int) -> Path:
        """A new bundle of this cloud's."""
        self._bundles += 1
        folder = self.world._folder / f"bundle-{self._bundles}"
        with self.store(cloud) as store:
            export(store, self.name, folder)
        return folder

    def audit(self, cloud: int) -> Verdict:
        """The verdict on one cloud, by its bundle and the other cloud's ledger."""
        return Bundle(self.bundle(cloud)).check(self.testimony(3 - cloud))

    def testimony(self, cloud: int) -> Testimony:
        """This cloud's testimony to an auditor about the other."""
        with self.store(cloud) as store:
            return testimony(store, self.name)


__all__ = ["AuditedJob", "Fault"]
