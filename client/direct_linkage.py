"""`link_with`: two owners find the records they have in common, directly, without any cloud."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from ppodc.linkage.direct import MAX_EPSILON, DirectLinkage
from ppodc.linkage.result import LinkCount, LinkResult
from ppodc.pairs.progress import Listener, ignore
from ppodc.records.privacy_budget import charged_for
from ppodc.records.upload_form import Cloud
from ppodc.service.addresses import check_address
from ppodc.spec import Spec
from ppodc.transport import curve_keys, zmq_session
from ppodc.transport.curve_keys import CurveKeys

PRIVACY = Path("ppodc-privacy")
_PATIENCE = 3600.0  # for a message; an owner that is gone is noticed in seconds


def link_with(
    spec: Spec | str | Path,
    data: Any,
    *,
    role: Cloud,
    owner: str,
    address: str,
    key: str | Path,
    peer: str | Path,
    wait: float = 60.0,
    privacy: str | Path = PRIVACY,
    max_epsilon: Fraction = MAX_EPSILON,
    header: bool = True,
    progress: Listener = ignore,
    ready: Callable[[str], None] = lambda _: None,
) -> LinkResult | LinkCount:
    """The links of this owner's rows with those of one other owner who makes the same call.

    Parameters
    ----------
    spec : a spec of the kind linkage, or its file; both owners must have the same.
    data : this owner's table: a data frame, an array, or a CSV or Parquet file.
    role : 1 listens at `address`, 2 connects to it. One owner takes each.
    owner : this owner's name, by which the other's links call it.
    address : such as tcp://192.0.2.7:7500.
    key : NAME of this owner's key files NAME.secret and NAME.public (`ppodc key NAME`).
    peer : the other owner's NAME.public.
    wait : seconds to wait for the other owner.
    privacy : folder with this owner's privacy budget; blocks with cells are charged to it.
    max_epsilon : what may be charged in all.
    progress : called with every `Event`; ready : called with the address that is listened at.

    Nothing is sent or charged before table and spec are checked and the other owner is there with
    the same release and the same spec.
    """
    check_address("address", address)
    agreed = spec if isinstance(spec, Spec) else Spec.load(spec)
    keys, other = CurveKeys.load(Path(key)), curve_keys.load_public(Path(peer))
    end = DirectLinkage(
        agreed,
        data,
        role=role,
        owner=owner,
        privacy=Path(privacy),
        max_epsilon=max_epsilon,
        header=header,
    )
    with charged_for(agreed.name, data):
        if role == 1:
            with zmq_session.listen(address, keys, [other], timeout=_PATIENCE) as listener:
                ready(listener.endpoint)
                return end.run(listener.accept(wait, end.facts), progress)
        channel = zmq_session.connect(
            address, keys, other, hello=end.facts, timeout=wait, receive_timeout=_PATIENCE
        )
        return end.run(channel, progress)
