"""Small specs, records and stores for the platform's tests."""

import secrets
from pathlib import Path

import numpy as np

from ppodc.kmeans.job import Job
from ppodc.members import Members
from ppodc.records.schema import Column, Schema
from ppodc.records.sharing import split
from ppodc.service.store import Store
from ppodc.spec import Spec


def members(*names: str, least=1) -> Members:
    """Owners of these names, with keys that only tests without sockets can use."""
    return Members.of({name: f"{name:.<40}" for name in names}, least)


def make_spec(name="clinic", columns=3, *, labels=True, k=2, owners=None, min_size=1) -> Spec:
    schema = Schema(tuple(Column(f"c{s}", 0.0, 10.0) for s in range(columns)), ub=100)
    job = Job(k=k, seed=7, labels=labels, min_size=min_size)
    return Spec(name, schema, job, owners or members("ann", "bob"))


def records(rows: int, columns=3, case=0) -> np.ndarray:
    return np.random.default_rng(case).integers(0, 101, (rows, columns))


def stores(folder: Path) -> tuple[Store, Store]:
    return Store.open(folder / "c1", "cloud1"), Store.open(folder / "c2", "cloud2")


def sealed_rows(store: Store, dataset: str, first: int, count: int) -> np.ndarray:
    """A cloud's part of these sealed rows."""
    return store.seals.rows(store.seals.sealed(dataset), first, count)


def put_upload(first: Store, second: Store, dataset: str, owner: str, values: np.ndarray) -> str:
    """A whole upload at both clouds, in one chunk; its id."""
    upload_id = secrets.token_hex(16)
    share, seed = split(values)
    for store in (first, second):
        store.uploads.begin(dataset, owner, upload_id, len(values))
    first.uploads.put_chunk(upload_id, 0, share)
    second.uploads.put_seed(upload_id, seed)
    first.uploads.commit(upload_id)
    second.uploads.commit(upload_id)
    return upload_id
