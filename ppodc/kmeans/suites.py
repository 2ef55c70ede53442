"""The suites by name: the one place that knows them all."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ppodc.crypto.paillier import PublicKey, RandomiserSource, SecretKey
from ppodc.crypto.randomisers import FreshRandomisers, PooledRandomisers
from ppodc.errors import InputError
from ppodc.kmeans import widths
from ppodc.kmeans.half import Half, Parameters
from ppodc.kmeans.paillier.half import Half1, Half2
from ppodc.transport.channel import Channel

Suite = Literal["shares", "paillier"]
Role = Literal[1, 2]
DEFAULT: Suite = "shares"


@dataclass(frozen=True, slots=True)
class Material:
    """What a half is made from besides its channel; the key is public at C1, secret at C2."""

    key: PublicKey | SecretKey = field(repr=False)
    pool: int = 0  # paillier: randomisers to make ahead; 0 makes each when it is needed
    pools: Path | None = (
        None  # shares: folder of supplies made ahead, and where `prepare` puts them
    )


def named(suite: str) -> Suite:
    """The suite of this name; InputError if there is none."""
    if suite == "shares":
        return "shares"
    if suite == "paillier":
        return "paillier"
    raise InputError(f"there is no suite {suite!r}; choose one of {', '.join(get_args(Suite))}.")


def check(suite: Suite, params: Parameters, key_bits: int) -> None:
    """Refuse, before anything runs, a job whose numbers the suite cannot hold."""
    if suite == "paillier":
        widths.check_paillier(params, key_bits)


def open_half(
    suite: Suite, role: Role, channel: Channel, params: Parameters, material: Material
) -> Half:
    """This cloud's half of a pair; both clouds call it at the same time."""
    key = material.key
    if suite == "shares":
        from ppodc.kmeans.shares.half import SharesHalf  # loads compiled kernels: only when used

        return SharesHalf(role, channel, params, key, pools=material.pools)
    if isinstance(key, SecretKey):
        return Half2(channel, params, key, _randomisers(key.public, key, material.pool))
    return Half1(channel, params, key, _randomisers(key, None, material.pool))


def _randomisers(public: PublicKey, secret: SecretKey | None, pool: int) -> RandomiserSource:
    fresh = FreshRandomisers(public, secret)
    if not pool:
        return fresh
    # The files have no name any more once they are open: no other process can ever use them.
    with tempfile.TemporaryDirectory(prefix="ppodc-pool-") as folder:
        pooled = PooledRandomisers(Path(folder), public, fresh)
    pooled.fill(pool)
    return pooled
