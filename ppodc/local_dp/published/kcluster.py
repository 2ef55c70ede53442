"""kCluster and DBSCAN on estimated distances: the collector's clustering of bit reports.

kCluster moves each record to the cluster with the smallest mean distance to its members of the
iteration before, until nothing changes; ties to the lowest index, an empty cluster stays empty.
*Matrix form*: Euclidean, O(n^2 k) an iteration on an n x n matrix. *Linear form* (manhattan): the
mean Hamming distance of a report to a cluster follows from the cluster's sums of ones
(`nearest_bits`), without pairs; the sums add up over chunks and workers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.local_dp.published.packed_bits import Packed, unpack

MATRIX_ROWS = 20_000  # reports of which all pairs fit into memory

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Clustering:
    """Labels, whether they settled, and the objective: mean distance to the own cluster."""

    labels: Labels
    n_iter: int
    converged: bool
    objective: float


def first_rows(n: int, k: int, random: SecureRandom) -> Labels:
    """k records at random."""
    if not 1 <= k <= n:
        raise InputError(f"{k} clusters need at least as many records, and there are {n}")
    return random.permutation(n)[:k].astype(np.int64)


def kcluster_matrix(
    distances: NDArray[np.float32], k: int, *, max_iter: int, random: SecureRandom
) -> Clustering:
    """The matrix form."""
    labels = distances[:, first_rows(len(distances), k, random)].argmin(axis=1).astype(np.int64)
    for n_iter in range(1, max_iter + 1):
        means = _mean_distances(distances, labels, k)
        new = means.argmin(axis=1).astype(np.int64)
        if np.array_equal(new, labels):
            return Clustering(labels, n_iter, True, float(means.min(axis=1).mean()))
        labels = new
    means = _mean_distances(distances, labels, k)
    return Clustering(labels, max_iter, False, float(means.min(axis=1).mean()))


def _mean_distances(distances: NDArray[np.float32], labels: Labels, k: int) -> NDArray[np.float32]:
    members = np.zeros((len(labels), k), np.float32)
    members[np.arange(len(labels)), labels] = 1
    sizes = members.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (distances @ members) / sizes
    means[:, sizes == 0] = np.inf
    return np.asarray(means)


@dataclass(frozen=True, slots=True)
class LinearClustering:
    """Labels, and of every cluster the sums of ones and its size."""

    labels: Labels
    ones: Labels
    sizes: Labels
    n_iter: int
    converged: bool


def kcluster_linear(
    reports: Packed,
    attributes: int,
    bits: int,
    k: int,
    *,
    max_iter: int,
    random: SecureRandom,
) -> LinearClustering:
    """The linear form; `bits` are those of one attribute."""
    from ppodc.local_dp.published.nearest_bits import assign_and_sum  # compiled when first needed

    chosen = first_rows(len(reports), k, random)
    first = unpack(reports[chosen].reshape(k * attributes, -1), bits)
    ones, sizes = first.reshape(k, -1).astype(np.int64), np.ones(k, np.int64)
    labels = np.full(len(reports), -1, np.int64)
    for n_iter in range(1, max_iter + 1):
        new, ones, sizes = assign_and_sum(reports, attributes, bits, ones, sizes)
        if np.array_equal(new, labels):
            return LinearClustering(labels, ones, sizes, n_iter, True)
        labels = new
    return LinearClustering(labels, ones, sizes, max_iter, False)


def dbscan(distances: NDArray[np.float32], radius: float, least: int) -> Labels:
    """DBSCAN on a matrix: clusters of core records and what they reach; -1 is noise."""
    near = distances <= radius
    core = near.sum(axis=1) >= least
    labels = np.full(len(distances), -1, np.int64)
    cluster = 0
    for start in np.flatnonzero(core).tolist():
        if labels[start] >= 0:
            continue
        front = np.zeros(len(distances), bool)
        front[start] = True
        while front.any():
            labels[front] = cluster
            front = near[front & core].any(axis=0) & (labels < 0)
        cluster += 1
    return labels


def matches(distances: NDArray[np.float32], threshold: float) -> NDArray[np.bool_]:
    """Record linkage: pairs at most this far apart."""
    return np.asarray(distances <= threshold)
