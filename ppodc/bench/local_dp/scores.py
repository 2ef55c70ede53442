"""Scores of clusters against classes; k-means and neighbours without privacy as references."""

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.privacy.weighted_kmeans import mean_squared_distance, squared_distances, weighted_kmeans

Labels = NDArray[np.int64]
Reals = NDArray[np.float64]


def seeded(*numbers: int) -> SecureRandom:
    """A stream that experiments can repeat."""
    return SecureRandom(b"".join(n.to_bytes(8, "big") for n in numbers).rjust(32, b"\0"))


def _table(first: Labels, second: Labels) -> Reals:
    a, b = (np.unique(labels, return_inverse=True)[1] for labels in (first, second))
    counts = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(counts, (a, b), 1)
    return counts


def nmi(first: Labels, second: Labels) -> float:
    """Normalised mutual information, arithmetic mean of the entropies."""
    joint = _table(first, second) / len(first)
    a, b = joint.sum(axis=1), joint.sum(axis=0)
    filled = joint > 0
    mutual = float((joint[filled] * np.log(joint[filled] / np.outer(a, b)[filled])).sum())
    entropies = -float((a * np.log(a)).sum()) - float((b * np.log(b)).sum())
    return 2 * mutual / entropies if entropies > 0 else 1.0


def ari(first: Labels, second: Labels) -> float:
    """Adjusted Rand index."""
    counts = _table(first, second)

    def pairs(x: Reals) -> float:
        return float((x * (x - 1) / 2).sum())

    both, a, b = pairs(counts), pairs(counts.sum(axis=1)), pairs(counts.sum(axis=0))
    expected = a * b / max(1.0, len(first) * (len(first) - 1) / 2)
    most = (a + b) / 2
    return (both - expected) / (most - expected) if most != expected else 1.0


def reference_kmeans(points: Reals, k: int, seed: int = 0, starts: int = 8) -> float:
    """NICV of k-means without privacy, best of the starts."""
    centres, _ = weighted_kmeans(
        points, np.ones(len(points)), k, random=seeded(seed), starts=starts
    )
    return mean_squared_distance(points, centres)


def neighbours(train: Reals, labels: Labels, test: Reals, k: int = 5) -> Labels:
    """The most frequent class of the k nearest records (ties to the lower class)."""
    classes = int(labels.max()) + 1
    found = np.empty(len(test), np.int64)
    for start in range(0, len(test), 512):
        part = test[start : start + 512]
        near = np.argpartition(squared_distances(part, train), k, axis=1)[:, :k]
        votes = np.stack([(labels[near] == c).sum(axis=1) for c in range(classes)], axis=1)
        found[start : start + 512] = votes.argmax(axis=1)
    return found


def linear_accuracy(train: Reals, labels: Labels, test: Reals, truth: Labels) -> float:
    """Share of right answers of a linear classifier (ridge regression on the classes)."""
    wanted = np.eye(int(labels.max()) + 1)[labels]
    inputs, tests = (np.hstack([x, np.ones((len(x), 1))]) for x in (train, test))
    gram = inputs.T @ inputs + np.eye(inputs.shape[1])
    return float(
        ((tests @ np.linalg.solve(gram, inputs.T @ wanted)).argmax(axis=1) == truth).mean()
    )
