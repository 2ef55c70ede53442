"""The suites by name: the one place that knows them all.

A suite is loaded when one of its halves is opened, so that naming suites costs nothing. Every suite
prepares: with a folder of pools, what iterations take can be made ahead of them.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ppodc.errors import ConfigError, OptionError, SpecError

if TYPE_CHECKING:
    from ppodc.crypto.paillier import PublicKey, SecretKey
    from ppodc.crypto.paillier_arithmetic import RandomiserSource
    from ppodc.kmeans.half import Half
    from ppodc.kmeans.linked.columns import LinkedColumns
    from ppodc.kmeans.parameters import Parameters
    from ppodc.pairs.cloud_side import Material
    from ppodc.transport.channel import Channel

Suite = Literal["shares", "paillier"]
Role = Literal[1, 2]
Mode = Literal["online+offline", "online", "pipelined"]  # when randomness is made; work overlaps
NAMES: tuple[Suite, ...] = get_args(Suite)
DEFAULT: Suite = "shares"
_REVEALED_BITS = 63  # of a number that owners get
_NO_KEY = "the paillier suite needs cloud 2's Paillier key, and this cloud has none."
_RANDOMISERS = "randomisers"  # paillier's folder among the pools


def named(name: str) -> Suite:
    """The suite of this name; InputError if there is none."""
    for suite in NAMES:
        if suite == name:
            return suite
    raise OptionError(f"there is no suite {name!r}; choose one of {', '.join(NAMES)}.")


def check(suite: Suite, params: "Parameters", key_bits: int) -> None:
    """Refuse, before anything runs, a job whose numbers the suite cannot hold.

    `key_bits` are those of cloud 2's Paillier key, 0 if there is none.
    """
    if suite == "paillier":
        from ppodc.kmeans.widths import check_paillier

        if not key_bits:
            raise ConfigError(_NO_KEY)
        check_paillier(params, key_bits)


def check_starts(params: "Parameters", *, several: bool, revealed: bool) -> None:
    """Refuse a job whose inertia the shares suite cannot compare, or tell."""
    from ppodc.kmeans.shares.inertia import ScoreRings
    from ppodc.kmeans.shares.spread import SpreadBits

    if several:
        ScoreRings.of(params)
    if revealed and SpreadBits.of(params).total > _REVEALED_BITS:
        raise SpecError(
            f"job.inertia: the squares of {params.m} records need more than {_REVEALED_BITS} bits. "
            "Create a dataset with a smaller ub, or without."
        )


def open_half(
    suite: Suite,
    role: Role,
    channel: "Channel",
    params: "Parameters",
    material: "Material",
    *,
    pipelined: bool = True,
    linked: "LinkedColumns | None" = None,
) -> "Half":
    """This cloud's half of a pair; both clouds call it at the same time.

    `linked`: records are linked first, which the shares suite alone can do.

    Without `pipelined` the clouds of the paillier suite take turns; the other suite always does.
    """
    if suite == "shares":
        if linked is not None:
            from ppodc.kmeans.linked.distinct import DistinctHalf

            return DistinctHalf(role, channel, params, linked=linked, pools=material.pools)
        from ppodc.kmeans.shares.half import SharesHalf

        return SharesHalf(role, channel, params, pools=material.pools, secrets=material.secrets)
    from ppodc.crypto.paillier import PublicKey, SecretKey
    from ppodc.crypto.split_paillier import KeyShare
    from ppodc.kmeans.paillier.half import Half1, Half2

    key = material.key
    if key is None:
        raise ConfigError(_NO_KEY)
    if isinstance(key, SecretKey):
        return Half2(channel, params, key, _randomisers(key.public, key, material.pools))
    public = key if isinstance(key, PublicKey) else key.public
    source = _randomisers(public, None, material.pools)
    if isinstance(key, KeyShare) and key.cloud == 2:
        return Half2(channel, params, key, source)
    return Half1(channel, params, key, source, pipelined=pipelined)


def _randomisers(
    public: "PublicKey", secret: "SecretKey | None", pools: Path | None
) -> "RandomiserSource":
    """Made when needed, or ahead of that into a folder where none is used twice."""
    from ppodc.crypto.randomisers import FreshRandomisers, PooledRandomisers

    fresh = FreshRandomisers(public, secret)
    return fresh if pools is None else PooledRandomisers(pools / _RANDOMISERS, public, fresh)
