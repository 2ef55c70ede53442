"""The suites by name: the one place that knows them all.

A suite is loaded when one of its halves is opened, so that naming suites costs nothing. Every suite
prepares: with a folder of pools, what iterations take can be made ahead of them.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ppodc.errors import InputError

if TYPE_CHECKING:
    from ppodc.crypto.paillier import PublicKey, SecretKey
    from ppodc.crypto.paillier_arithmetic import RandomiserSource
    from ppodc.kmeans.half import Half, Parameters
    from ppodc.kmeans.linked_columns import LinkedColumns
    from ppodc.pairs.plan import Material
    from ppodc.transport.channel import Channel

Suite = Literal["shares", "paillier"]
Role = Literal[1, 2]
Mode = Literal["online+offline", "online", "pipelined"]  # when randomness is made; work overlaps
NAMES: tuple[Suite, ...] = get_args(Suite)
DEFAULT: Suite = "shares"
_TOLD_BITS = 63  # of a number that owners get
_RANDOMISERS = "randomisers"  # paillier's folder among the pools


def named(name: str) -> Suite:
    """The suite of this name; InputError if there is none."""
    for suite in NAMES:
        if suite == name:
            return suite
    raise InputError(f"there is no suite {name!r}; choose one of {', '.join(NAMES)}.")


def check(suite: Suite, params: "Parameters", key_bits: int) -> None:
    """Refuse, before anything runs, a job whose numbers the suite cannot hold."""
    if suite == "paillier":
        from ppodc.kmeans.widths import check_paillier

        check_paillier(params, key_bits)


def check_starts(params: "Parameters", *, several: bool, told: bool) -> None:
    """Refuse a job whose inertia the shares suite cannot compare, or tell."""
    from ppodc.kmeans.shares.inertia import ScoreRings
    from ppodc.kmeans.shares.spread import SpreadBits

    if several:
        ScoreRings.of(params)
    if told and SpreadBits.of(params).total > _TOLD_BITS:
        raise InputError(
            f"job.inertia: the squares of {params.m} records need more than {_TOLD_BITS} bits. "
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
            from ppodc.kmeans.shares.distinct import DistinctHalf

            key, pools = material.key, material.pools
            return DistinctHalf(role, channel, params, key, linked=linked, pools=pools)
        from ppodc.kmeans.shares.half import SharesHalf

        return SharesHalf(role, channel, params, material.key, pools=material.pools)
    from ppodc.crypto.paillier import SecretKey
    from ppodc.kmeans.paillier.half import Half1, Half2

    key = material.key
    if isinstance(key, SecretKey):
        return Half2(channel, params, key, _randomisers(key.public, key, material.pools))
    source = _randomisers(key, None, material.pools)
    return Half1(channel, params, key, source, pipelined=pipelined)


def _randomisers(
    public: "PublicKey", secret: "SecretKey | None", pools: Path | None
) -> "RandomiserSource":
    """Made when needed, or ahead of that into a folder where none is used twice."""
    from ppodc.crypto.randomisers import FreshRandomisers, PooledRandomisers

    fresh = FreshRandomisers(public, secret)
    return fresh if pools is None else PooledRandomisers(pools / _RANDOMISERS, public, fresh)
