"""SSED and SSED_OP: squared distances between encrypted vectors.

SSED_OP(t, c_h) = sum_s (alpha t[s] - alpha_h lambda_h[s])^2 = (alpha ||t - mu_h||)^2 (Eq. 5.3).
alpha, alpha_h and A_h[s] = alpha_h lambda_h[s] depend on the clusters only: `scale` makes them
once per iteration, not once per record (Algorithm 5.2 makes them for every record).

Who learns what: nothing beyond SMP.

Per record: l products alpha t[s], shared by all clusters, then k l squares that C2 adds up to k
numbers: k l + 2 l exponentiations by masks. Two rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ppodc.crypto.paillier import Ciphertexts
from ppodc.kmeans.paillier.exchange import Cloud1, Step
from ppodc.kmeans.paillier.smp import multiply, smp, smp_except_one
from ppodc.kmeans.widths import Widths


@dataclass(frozen=True, slots=True)
class Scaled:
    """E(alpha), and per attribute the k ciphertexts E(-alpha_h lambda_h[s])."""

    alpha: Ciphertexts
    negative_centres: list[Ciphertexts]


def scale(c1: Cloud1, sums: list[Ciphertexts], sizes: Ciphertexts, w: Widths) -> Step[Scaled]:
    """Scaling factors and scaled centres of the current clusters; `sums` per attribute."""
    k = len(sizes)
    without = yield from smp_except_one(c1, sizes, w.alpha)
    alpha = yield from smp(c1, without[:1], sizes[:1], w.alpha)
    repeated = Ciphertexts.concat([without] * len(sums))
    scaled = yield from smp(c1, repeated, Ciphertexts.concat(sums), max(w.alpha, w.sums))
    negative = c1.cipher.negate(scaled)
    return Scaled(alpha, [negative[s * k : (s + 1) * k] for s in range(len(sums))])


def ssed(c1: Cloud1, differences: Sequence[Ciphertexts], bits: int) -> Step[Ciphertexts]:
    """Row by row E(sum_s d_s^2), where differences[s] holds E(d_s), |d_s| < 2^bits."""
    squares = [(s, s) for s in range(len(differences))]
    (distances,) = yield from multiply(c1, differences, bits, [squares])
    return distances


def ssed_op(
    c1: Cloud1, records: Sequence[Ciphertexts], scaled: Scaled, w: Widths
) -> Step[Ciphertexts]:
    """E of the squared order-preserving distances, cluster by cluster: k times all records.

    records[s] holds E(t[s]) of each record.
    """
    rows = len(records[0])
    k = len(scaled.negative_centres[0])
    alpha = Ciphertexts.concat([scaled.alpha] * rows)
    with_alpha = [[(0, s + 1)] for s in range(len(records))]
    products = yield from multiply(c1, [alpha, *records], max(w.alpha, w.value), with_alpha)
    differences = [
        c1.cipher.add(
            Ciphertexts.concat([product] * k),
            Ciphertexts.concat([centres[h : h + 1] for h in range(k) for _ in range(rows)]),
        )
        for product, centres in zip(products, scaled.negative_centres, strict=True)
    ]
    return (yield from ssed(c1, differences, w.alpha + w.value))
