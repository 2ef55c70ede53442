"""A deployment of one collector, and small tables of numbers and categories for it."""

from dataclasses import replace

import numpy as np

from client import Owner
from client.accepted import AcceptedSpecs
from client.operator import Operator
from ppodc.files import private_folder, write_private
from ppodc.local.platform import free_ports
from ppodc.local_dp.job import Job
from ppodc.local_dp.report_streams import ReportKey, insecure_streams
from ppodc.records.schema import Column, Schema
from ppodc.service.config import CollectorConfig, OwnerConfig, load, peers
from ppodc.service.deployment import create_local, members
from ppodc.service.operations import owner_operations
from ppodc.service.store import Store
from ppodc.spec import Spec
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from tests.harness.patience import LONG

NUMBERS = Schema((Column("x", 0.0, 10.0), Column("y", -5.0, 5.0)), ub=1000)
CATEGORIES = Schema((Column("a", 0, 2), Column("b", 1, 2), Column("c", 0, 2)))
CENTRES = np.array([[2.0, -3.0], [8.0, 3.0]])


class Server:
    """A deployment of one collector and two owners, with its gateway running."""

    def __init__(self, folder, stack):
        (port,) = free_ports(1)
        self.deployment = create_local(folder, ["ann", "bob"], listen=f"tcp://127.0.0.1:{port}")
        config = load(self.deployment.party("collector").config, CollectorConfig)
        self.store = stack.enter_context(Store.open(config.store, "cloud1"))
        keys = CurveKeys.load(config.key)
        operations = owner_operations(self.store)
        stack.enter_context(Gateway(config.listen, keys, peers(config), operations))

    def fix_noise(self):
        """Give both owners fixed report keys: their reports are the same in every run."""
        for seed, name in enumerate(("ann", "bob")):
            folder = private_folder(self.deployment.party(name).folder / "privacy")
            write_private(folder / "report.key", ReportKey.from_seed(seed).secret_bytes())

    def create(self, spec, accepted=True):
        spec = replace(spec, owners=members(self.deployment.folder, 1))
        for name in spec.owners.names if accepted else ():
            config = load(self.deployment.party(name).config, OwnerConfig)
            AcceptedSpecs(config.uploads / "accepted").accept(spec, spec)
        with Operator.connect(self.deployment.party("operator").config) as operator:
            operator.create(spec)
        return spec

    def config(self, name):
        return self.deployment.party(name).config

    def owner(self, name):
        return Owner.connect(self.deployment.party(name).config)

    def client(self, name):
        config = load(self.deployment.party(name).config, OwnerConfig)
        keys = CurveKeys.load(config.key)
        return Client.connect(config.cloud1.endpoint, keys, config.cloud1.public_key.encode(), LONG)


def numbers_spec(name="survey", **changes):
    job = {"k": 2, "epsilon": 3.0, "expected_rows": 6000, "seed": 5, **changes}
    return Spec(name, NUMBERS, Job(**job))


def numbers(rows, seed):
    words = insecure_streams(rows, seed).words(9)
    spread = (words[:, :8].reshape(rows, 2, 4) % 1001).sum(axis=2) / 4004 - 0.5
    return CENTRES[words[:, 8] % 2] + 2 * spread


def categories(rows, seed):
    words = insecure_streams(rows, seed).words(4).astype(np.int64)
    modes = np.array([[0, 1, 0], [2, 2, 2]])[words[:, 3] % 2]
    other = np.stack([words[:, 0] % 3, 1 + words[:, 1] % 2, words[:, 2] % 3], axis=1)
    return np.where(words[:, :3] % 5 == 0, other, modes).astype(float)
