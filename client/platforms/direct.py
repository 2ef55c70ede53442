"""`link_with`: two owners find the records they have in common, directly, without any cloud."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from client.platforms.two_owners import MAX_EPSILON, DirectLinkage
from ppodc.linkage.result import LinkCount, LinkResult
from ppodc.pairs.progress import Listener, ignore
from ppodc.privacy.budget import charged_for
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

    Nothing is sent or charged before table and spec are checked and the other owner is there with
    the same release and the same spec.

    Parameters
    ----------
    spec : Spec, str or Path
        A spec of the kind linkage, or its file; both owners must have the same.
    data : DataFrame, array, str or Path
        This owner's table, or its CSV or Parquet file.
    role : 1 or 2
        1 listens at `address`, 2 connects to it. One owner takes each.
    owner : str
        This owner's name, by which the other's links call it.
    address : str
        Such as tcp://192.0.2.7:7500.
    key : str or Path
        NAME of this owner's key files NAME.secret and NAME.public (`ppodc key NAME`).
    peer : str or Path
        The other owner's NAME.public.
    wait : float, default=60.0
        Seconds to wait for the other owner.
    privacy : str or Path, default="ppodc-privacy"
        Folder with this owner's privacy budget; blocks with cells are charged to it.
    max_epsilon : Fraction, default=10
        The most that may be charged in all.
    header : bool, default=True
        Whether a CSV file begins with a line of names.
    progress : callable
        Called with every `Event`.
    ready : callable
        Called with the address that role 1 listens at.

    Returns
    -------
    LinkResult or LinkCount
        The links or flags of this owner's rows, or the number of links.
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
