"""Both clouds as one party calls them, and what is asked of both alike.

Whatever both report must agree; a difference is an error that names it, never a choice.
"""

from pathlib import Path

import msgspec

from ppodc.errors import InputError
from ppodc.service.config import OwnerConfig, Remote, load
from ppodc.service.messages import DatasetList, DatasetsAsk, Named, SpecText
from ppodc.service.store.datasets import Dataset
from ppodc.spec import Spec
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys


class ListedDataset(Dataset, frozen=True):
    """A dataset as cloud 1 shows it; `agreed`: cloud 2 presents the same spec."""

    agreed: bool


class Clouds:
    """Connections to cloud 1 and cloud 2 under one key."""

    def __init__(self, first: Client, second: Client) -> None:
        self.first, self.second = first, second

    @classmethod
    def connect(cls, config: OwnerConfig) -> "Clouds":
        """To the clouds that the configuration names and pins."""
        keys = CurveKeys.load(config.key)
        first = _connect(config.cloud1, keys, config.timeout)
        try:
            return cls(first, _connect(config.cloud2, keys, config.timeout))
        except BaseException:
            first.close()
            raise

    @classmethod
    def from_file(cls, path: str | Path, role: str) -> tuple["Clouds", OwnerConfig]:
        """The clouds that a configuration names, for someone of this role."""
        config = load(path, OwnerConfig)
        if config.role != role:
            raise InputError(f"{path} is the configuration of an {config.role}, not an {role}.")
        return cls.connect(config), config

    def at(self, cloud: int) -> Client:
        """The connection to this cloud."""
        return self.first if cloud == 1 else self.second

    def close(self) -> None:
        """Give up both connections."""
        self.first.close()
        self.second.close()

    def datasets(self) -> list[ListedDataset]:
        """The datasets of cloud 1, by name."""
        theirs = {dataset.name: dataset.digest for dataset in _datasets(self.second)}
        return [
            ListedDataset(
                **msgspec.structs.asdict(dataset),
                agreed=theirs.get(dataset.name) == dataset.digest,
            )
            for dataset in _datasets(self.first)
        ]

    def spec(self, dataset: str) -> Spec:
        """The spec that both clouds present; InputError if they differ."""
        specs = [
            Spec.from_bytes(cloud.call("spec", Named(dataset), reply=SpecText)[0].spec)
            for cloud in (self.first, self.second)
        ]
        if specs[0].digest != specs[1].digest:
            raise InputError(
                f"the clouds present different specs of dataset {dataset!r} (cloud 1: "
                f"{specs[0].digest[:16]}, cloud 2: {specs[1].digest[:16]}); nothing was sent. Ask "
                "their operators."
            )
        if specs[0].name != dataset:
            raise InputError(f"asked for dataset {dataset!r} and was given {specs[0].name!r}.")
        return specs[0]


def _connect(remote: Remote, keys: CurveKeys, timeout: float) -> Client:
    return Client.connect(remote.endpoint, keys, remote.public_key.encode(), timeout)


def _datasets(cloud: Client) -> list[Dataset]:
    datasets: list[Dataset] = []
    while True:
        after = datasets[-1].name if datasets else ""
        page = cloud.call("datasets", DatasetsAsk(after), reply=DatasetList)[0].datasets
        if not page:
            return datasets
        if page[0].name <= after:
            raise InputError("a cloud lists its datasets in circles.")
        datasets += page
