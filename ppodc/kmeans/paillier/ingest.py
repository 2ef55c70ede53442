"""Taking in a shard's records (Stage 1): C2 sends E(-r) of its share, C1 adds its own share t + r.

Who learns what: C1 sees fresh ciphertexts. C2 learns which rows C1 takes in, which is public.

Per value: an encryption at C2 and two multiplications at C1. One round.
"""

from ppodc.crypto.paillier import Ciphertexts
from ppodc.errors import WireError
from ppodc.kmeans.paillier.exchange import Ask, Cloud1, Cloud2, Step, answers
from ppodc.kmeans.paillier.smp import Natural
from ppodc.transport.wire import Array, Body


class Rows(Body, frozen=True):
    """Rows first..first + count of C2's share of a shard."""

    shard: str
    first: Natural
    count: Natural


def ingest(c1: Cloud1, shard: str, first: int, share: Array) -> Step[list[Ciphertexts]]:
    """Per attribute E(t) of these rows; `share` is C1's, rows by attributes."""
    rows, l = share.shape
    (reply,) = yield Ask("share", Rows(shard, first, rows), ())
    theirs = c1.read(reply, rows * l)
    records = c1.cipher.add_plain(theirs, [int(x) for x in share.reshape(-1)])
    return [records[s::l] for s in range(l)]


@answers("share", Rows, arrays=0)
def answer_share(c2: Cloud2, ask: Rows, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: E(-r) of the rows asked for."""
    share = c2.shares.get(ask.shard)
    if share is None or ask.first + ask.count > len(share):
        raise WireError("C1 asks for records that C2 does not have; are both of one sealed set?")
    rows = share[ask.first : ask.first + ask.count]
    return [c2.cipher.encrypt([-int(x) for x in rows.reshape(-1)]).to_array()]
