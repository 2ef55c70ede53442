"""The suites by name: the one place that knows them all."""

from typing import Literal, get_args

from ppodc.crypto.paillier import SecretKey
from ppodc.crypto.randomisers import FreshRandomisers
from ppodc.errors import InputError
from ppodc.kmeans import widths
from ppodc.kmeans.half import Half, Parameters
from ppodc.kmeans.paillier.half import Half1, Half2
from ppodc.pairs.plan import Material
from ppodc.transport.channel import Channel

Suite = Literal["shares", "paillier"]
Role = Literal[1, 2]
DEFAULT: Suite = "shares"
NAMES: tuple[Suite, ...] = get_args(Suite)


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
        return Half2(channel, params, key, FreshRandomisers(key.public, key))
    return Half1(channel, params, key, FreshRandomisers(key, None))
