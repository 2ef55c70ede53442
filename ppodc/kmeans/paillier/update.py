"""Cluster-scale steps of an iteration: empty clusters are re-seeded, then SETC (Algorithm 5.4).

Re-seeding: b_h = [|c'_h| = 0] stays encrypted; lambda'_h += b_h t_rho and |c'_h| += b_h, where
rho is public and comes from the job's seed. Nobody learns whether it happened.

SETC compares sum_h f_h^2 sum_s (lambda_h[s] |c'_h| - lambda'_h[s] |c_h|)^2 with beta f^2, both
times the denominator of beta.

Small clusters, at the output: b_h = [|c_h| < least] stays encrypted; (1 - b_h) times sums and size.
Where owners are told apart, for each of them, with the size less the owner's own records.

Who learns what: both clouds learn the stop bit, nothing else.

Rounds: the bits of a count and of w2, plus about 2 k; nothing depends on m.
"""

from dataclasses import dataclass
from fractions import Fraction

from ppodc.crypto.paillier import Ciphertexts
from ppodc.kmeans.paillier.compare import at_most, sc
from ppodc.kmeans.paillier.exchange import Cloud1, Step
from ppodc.kmeans.paillier.sbd import sbd
from ppodc.kmeans.paillier.smp import smp, smp_except_one
from ppodc.kmeans.paillier.ssed_op import ssed
from ppodc.kmeans.widths import Widths


@dataclass(frozen=True, slots=True)
class Clusters:
    """k encrypted clusters: per attribute the k sums, and the k sizes."""

    sums: list[Ciphertexts]
    sizes: Ciphertexts

    @classmethod
    def from_flat(cls, flat: Ciphertexts, l: int) -> "Clusters":
        """From k rows of l sums and a size."""
        columns = [flat[s :: l + 1] for s in range(l + 1)]
        return cls(columns[:-1], columns[-1])

    def flat(self) -> Ciphertexts:
        """The state as k rows of l sums and a size."""
        columns = [*self.sums, self.sizes]
        values = [column.values[h] for h in range(len(self.sizes)) for column in columns]
        return Ciphertexts(self.sizes.key, values)


def reseed(c1: Cloud1, new: Clusters, candidates: Clusters, w: Widths) -> Step[Clusters]:
    """The clusters, where each empty one is replaced by its candidate record."""
    count_bits = yield from sbd(c1, new.sizes, w.counts)
    empty = yield from at_most(c1, count_bits, 0)
    repeated = Ciphertexts.concat([empty] * len(new.sums))
    added = yield from smp(c1, repeated, Ciphertexts.concat(candidates.sums), w.value)
    sums = c1.cipher.add(Ciphertexts.concat(new.sums), added)
    k = len(new.sizes)
    return Clusters(
        [sums[s * k : (s + 1) * k] for s in range(len(new.sums))], c1.cipher.add(new.sizes, empty)
    )


def large(
    c1: Cloud1,
    clusters: Clusters,
    least: int,
    w: Widths,
    members: Ciphertexts | None = None,
    owners: int = 1,
) -> Step[list[Clusters]]:
    """Each owner's clusters; zeros for those with fewer than `least` records that count.

    All count, or with `members` (k sizes of each owner in turn) those that are not the owner's own.
    """
    k, columns = len(clusters.sizes), [*clusters.sums, clusters.sizes]
    if least <= 1:
        return [clusters] * owners
    counts, small = Ciphertexts.concat([clusters.sizes] * owners), c1.constant(1, k * owners)
    if members is not None:
        counts = c1.cipher.subtract(counts, members)
    if (least - 1).bit_length() <= w.counts:
        count_bits = yield from sbd(c1, counts, w.counts)
        small = yield from at_most(c1, count_bits, least - 1)
    kept = c1.cipher.add_plain(c1.cipher.negate(small), 1)
    # columns of owner 1, of owner 2, ...
    values = Ciphertexts.concat(columns * owners)
    bits = [kept[o * k : (o + 1) * k] for o in range(owners) for _ in columns]
    told = yield from smp(c1, Ciphertexts.concat(bits), values, w.sums)
    parts = [told[at : at + k] for at in range(0, len(values), k)]
    width = len(columns)
    rows = [parts[o * width : (o + 1) * width] for o in range(owners)]
    return [Clusters(row[:-1], row[-1]) for row in rows]


def setc(c1: Cloud1, old: Clusters, new: Clusters, beta: Fraction, w: Widths) -> Step[bool]:
    """Whether the centres moved by at most beta in all (squared, Eq. 5.5)."""
    k, l = len(old.sizes), len(old.sums)
    bits = w.stop
    tau = yield from smp(c1, old.sizes, new.sizes, bits)
    factors = yield from smp_except_one(c1, tau, bits)
    f = yield from smp(c1, factors[:1], tau[:1], bits)
    both = Ciphertexts.concat([factors, f])
    squares = yield from smp(c1, both, both, bits)
    left = Ciphertexts.concat([*old.sums, *new.sums])
    sizes = Ciphertexts.concat([new.sizes] * l + [old.sizes] * l)
    crossed = yield from smp(c1, left, sizes, bits)
    moved = c1.cipher.subtract(crossed[: k * l], crossed[k * l :])
    distances = yield from ssed(c1, [moved[s * k : (s + 1) * k] for s in range(l)], bits)
    scaled = yield from smp(c1, distances, squares[:k], bits)
    movement = c1.cipher.power(c1.cipher.sum(scaled), beta.denominator)
    allowed = c1.cipher.power(squares[k:], beta.numerator)
    found = yield from sbd(c1, Ciphertexts.concat([movement, allowed]), bits)
    return (yield from sc(c1, [b[:1] for b in found], [b[1:] for b in found]))
