"""Taking in a shard's records (Stage 1), whatever words were uploaded as t + r and r.

C2 sends E(-r) of its share and C1 adds its own, t + r modulo 2^64, and 2^64: a number of 65 bits
whose low b = bits(ub) bits, by SBD, are t mod 2^b. SMIN with the public ub makes it at most ub.
Whatever an owner uploads is thereby a value 0..ub, as every later mask assumes.

Deviation from the published system, which adds the shares as integers and trusts every owner.

Who learns what: C1 sees fresh ciphertexts. C2 learns which rows C1 takes in, which is public, and
what SBD (with masks for 65 bits) and SMIN show.

Per value: an encryption at C2 and two multiplications at C1, b bits of SBD and, unless ub is
2^b - 1, a comparison of b bits. b + 2 rounds.
"""

from ppodc.crypto.paillier import Ciphertexts
from ppodc.errors import WireError
from ppodc.kmeans.paillier.exchange import Ask, Cloud1, Cloud2, Step, answers
from ppodc.kmeans.paillier.sbd import number, public_bits, sbd
from ppodc.kmeans.paillier.smin_k import Contender, smin
from ppodc.kmeans.paillier.smp import Natural
from ppodc.transport.wire import Array, Body

DIFFERENCE_BITS = 65  # of 2^64 + (t + r mod 2^64) - r


class Rows(Body, frozen=True):
    """Rows first..first + count of C2's share of a shard."""

    shard: str
    first: Natural
    count: Natural


def ingest(c1: Cloud1, shard: str, first: int, share: Array, ub: int) -> Step[list[Ciphertexts]]:
    """Per attribute E(t) of these rows; `share` is C1's, rows by attributes."""
    rows, l = share.shape
    (reply,) = yield Ask("share", Rows(shard, first, rows), ())
    theirs = c1.read(reply, rows * l)
    # 2^64 + (t + r) - r
    difference = c1.cipher.add_plain(theirs, [(1 << 64) + int(x) for x in share.reshape(-1)])
    b = ub.bit_length()
    bits = yield from sbd(c1, difference, DIFFERENCE_BITS, low=b)
    records = number(c1, bits)
    if ub < (1 << b) - 1:
        bound = Contender(public_bits(c1, ub, b, rows * l), c1.constant(ub, rows * l))
        # min(t mod 2^b, ub): the values themselves are what the contenders are known by
        least = yield from smin(c1, Contender(bits, records), bound, keep_bits=False, index_bits=b)
        records = least.index
    return [records[s::l] for s in range(l)]


@answers("share", Rows, arrays=0, amount=lambda ask: ask.count)
def answer_share(c2: Cloud2, ask: Rows, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: E(-r) of the rows asked for."""
    share = c2.shares.get(ask.shard)
    if share is None or ask.first + ask.count > len(share):
        raise WireError("C1 asks for records that C2 does not have; are both of one sealed set?")
    rows = share[ask.first : ask.first + ask.count]
    return [c2.cipher.encrypt([-int(x) for x in rows.reshape(-1)]).to_array()]
