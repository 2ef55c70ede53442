"""Two real gateways with real stores on loopback, and owners who call them."""

import secrets
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from client import Owner
from ppodc.kmeans.reference import kmeans
from ppodc.local.platform import free_ports
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.records.sharing import combine
from ppodc.service.config import Cloud1Config, Cloud2Config, OwnerConfig, load, peers
from ppodc.service.deployment import Deployment, create, members
from ppodc.service.job_state import JobState
from ppodc.service.operations import owner_operations
from ppodc.service.store import Store
from ppodc.spec import Spec
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from tests.harness.patience import LONG
from tests.service.data import sealed_rows


@dataclass
class Platform:
    deployment: Deployment
    stores: tuple[Store, Store]

    def create(self, spec: Spec, least=1) -> Spec:
        """The dataset at both clouds with all owners of the deployment, who have accepted it."""
        owners = members(self.deployment.folder, least)
        spec = replace(spec, owners=owners)
        for store in self.stores:
            store.datasets.create(spec)
        for name in owners.names:
            with self.owner(name) as owner:
                owner.accept(spec.name, spec)
        return spec

    def owner(self, name="ann") -> Owner:
        return Owner.connect(self.deployment.party(name).config)

    def client(self, name: str, cloud=1) -> Client:
        config = load(self.deployment.party(name).config, OwnerConfig)
        remote = config.cloud1 if cloud == 1 else config.cloud2
        keys = CurveKeys.load(config.key)
        return Client.connect(remote.endpoint, keys, remote.public_key.encode(), LONG)

    def seal(self, dataset="clinic"):
        ids = [
            upload.upload_id for upload in self.stores[0].uploads.of(dataset) if upload.committed
        ]
        for store in self.stores:
            store.seals.seal(dataset, ids)

    def records(self, dataset="clinic") -> np.ndarray:
        m = self.stores[0].seals.sealed(dataset).m
        return combine(*(sealed_rows(store, dataset, 0, m) for store in self.stores))


def new_deployment(folder, owners):
    first, second = free_ports(2)
    return create(
        folder,
        owners,
        cloud1_listen=f"tcp://127.0.0.1:{first}",
        cloud2_listen=f"tcp://127.0.0.1:{second}",
        insecure_key_bits=256,
    )


def serve(deployment: Deployment, stack: ExitStack) -> tuple[Store, Store]:
    stores = []
    for role, kind in (("cloud1", Cloud1Config), ("cloud2", Cloud2Config)):
        config = load(deployment.party(role).config, kind)
        store = stack.enter_context(Store.open(config.store, role))
        operations = owner_operations(store)
        keys = CurveKeys.load(config.key)
        stack.enter_context(Gateway(config.listen, keys, peers(config), operations))
        stores.append(store)
    return stores[0], stores[1]


def table(rows: int, case=0) -> np.ndarray:
    return np.random.default_rng(case).uniform(0, 10, (rows, 3))


def finish_job(platform: Platform, max_iter=100):
    """Put the reference's result, split in halves, where a job would have put it."""
    spec, values = platform.stores[0].datasets.spec("clinic"), platform.records()
    job = spec.job
    trace = kmeans(
        values, job.k, beta=job.beta, max_iter=max_iter, seed=job.seed, min_size=job.min_size
    )
    flat = np.concatenate([trace.sums, trace.sizes[:, None]], axis=1).reshape(-1).tolist()
    halves = [split_values(flat, 2**521 - 1), split_values(trace.labels.tolist(), 1 << 71)]
    for side, store in enumerate(platform.stores):
        labels = {"labels": halves[1][side]} if spec.job.labels else {}
        for state in (JobState.PREPARING, JobState.RUNNING):
            store.jobs.transition("clinic", state)
        facts = {"n_iter": trace.n_iter, "converged": trace.converged}
        result = ResultShare(facts, {"clusters": halves[0][side]}, labels)
        store.results.save("clinic", result)
        store.jobs.transition("clinic", JobState.DONE)
    return trace


def split_values(values: list[int], modulus: int) -> tuple[OutputShare, OutputShare]:
    masks = [secrets.randbelow(modulus) for _ in values]
    hidden = [(value - mask) % modulus for value, mask in zip(values, masks, strict=True)]
    return OutputShare.of(modulus, hidden), OutputShare.of(modulus, masks)
