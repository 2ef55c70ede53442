"""Points of three groups, and what plaintext k-means makes of them."""

from collections.abc import Sequence

import numpy as np

from ppodc import SecureKMeans
from ppodc.records.encode import encode
from ppodc.records.grid import decode_centres
from ppodc.records.schema import Column, Schema
from tests.kmeans.expected import expected

BOUNDS = [(0.0, 10.0), (-5.0, 5.0)]
SCHEMA = Schema(tuple(Column(f"x{i}", *b) for i, b in enumerate(BOUNDS)), 1000)


def points(rows: int, seed: int) -> np.ndarray:
    g = np.random.default_rng(seed)
    middles = np.array([[2.0, -3.0], [8.0, 0.0], [5.0, 4.0]])
    return np.clip(middles[g.integers(0, 3, rows)] + g.normal(0, 0.5, (rows, 2)), (0, -5), (10, 5))


def equals_plaintext(model: SecureKMeans, owners: Sequence[np.ndarray]) -> None:
    """The fitted model equals the reference as the first owner gets it, labels of all owners."""
    job = model.spec_.job
    whose = np.repeat(np.arange(len(owners)), [len(table) for table in owners])
    plain = expected(job, encode(np.vstack(owners), SCHEMA), owners=whose)
    trace = plain.by_k[model.n_clusters]
    assert np.array_equal(model.labels_, trace.labels)
    assert [len(own) for own in model.owner_labels_] == [len(table) for table in owners]
    assert np.array_equal(model.sizes_, trace.sizes)
    assert (model.n_iter_, model.converged_) == (plain.n_iter, plain.converged)
    centres = decode_centres(trace.sums, trace.sizes, SCHEMA)
    assert np.array_equal(model.cluster_centers_, centres, equal_nan=True)
    assert model.inertia_ == (float(trace.inertia) if job.inertia else None)
