"""One batch of records through Stage 2: distances, bits, minimum, and the sums of the one-hot.

SMP with the one-hot: Lambda_h[s] = sum over the batch of Gamma_h t[s] for all clusters but the
last, whose sums are what the others leave of the batch's total. C2 adds the masked products of the
whole batch up before it encrypts, so a batch costs (k - 1) l returned ciphertexts, not k l each.

Who learns what: nothing beyond SSED_OP, SBD, SMIN_k and SMP.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ppodc.crypto.paillier import Ciphertexts
from ppodc.kmeans.paillier.exchange import Cloud1, Step
from ppodc.kmeans.paillier.sbd import sbd
from ppodc.kmeans.paillier.smin_k import smin_k
from ppodc.kmeans.paillier.smp import multiply
from ppodc.kmeans.paillier.ssed_op import Scaled, ssed_op
from ppodc.kmeans.widths import Widths


@dataclass(frozen=True, slots=True)
class Assigned:
    """Partial sums (k rows of l sums and a count, flat); each record's index and k bits for it."""

    sums: Ciphertexts
    index: Ciphertexts
    hot: list[Ciphertexts]


def assign(c1: Cloud1, records: Sequence[Ciphertexts], scaled: Scaled, w: Widths) -> Step[Assigned]:
    """Stage 2 for one batch; records[s] holds E(t[s]) of each record."""
    rows = len(records[0])
    k = len(scaled.negative_centres[0])
    if k == 1:
        total = [c1.cipher.sum(column) for column in records]
        sums = Ciphertexts.concat([*total, c1.constant(rows, 1)])
        return Assigned(sums, c1.constant(0, rows), [c1.constant(1, rows)])
    distances = yield from ssed_op(c1, records, scaled, w)
    bits = yield from sbd(c1, distances, w.distance)
    numbers = [[bit[h * rows : (h + 1) * rows] for bit in bits] for h in range(k)]
    gamma, index = yield from smin_k(c1, numbers)
    sums = yield from one_hot_sums(c1, records, gamma, w)
    return Assigned(sums, index, gamma)


def one_hot_sums(
    c1: Cloud1, records: Sequence[Ciphertexts], gamma: Sequence[Ciphertexts], w: Widths
) -> Step[Ciphertexts]:
    """Per cluster the l sums of its records, and their number."""
    l, k = len(records), len(gamma)
    terms = [[(h, k - 1 + s)] for h in range(k - 1) for s in range(l)]
    products = yield from multiply(c1, [*gamma[:-1], *records], w.value, terms, total=True)
    total = Ciphertexts.concat(
        [c1.cipher.sum(column) for column in records] + [c1.constant(len(records[0]), 1)]
    )
    clusters = [
        Ciphertexts.concat([*products[h * l : (h + 1) * l], c1.cipher.sum(gamma[h])])
        for h in range(k - 1)
    ]
    taken = clusters[0]
    for cluster in clusters[1:]:
        taken = c1.cipher.add(taken, cluster)
    return Ciphertexts.concat([*clusters, c1.cipher.subtract(total, taken)])
