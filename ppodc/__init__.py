"""Exact k-means, and other jobs, on records that nobody may see.

`from ppodc import SecureKMeans, Owner, ...` gives what users need, wherever it lives. A name is
loaded when it is first used: services, workers and commands do not wait for what they do not need,
and nothing in here depends on the owners' code.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppodc.extras import named_if_missing

if TYPE_CHECKING:  # for type checkers and editors, which do not run `__getattr__`
    from client.accountant import PrivacyAccountant as PrivacyAccountant
    from client.both_clouds import ListedDataset as ListedDataset
    from client.estimators.local_dbscan import LocalPrivateDBSCAN as LocalPrivateDBSCAN
    from client.estimators.local_mixed import LocalPrivateKPrototypes as LocalPrivateKPrototypes
    from client.estimators.local_private import LocalPrivateKMeans as LocalPrivateKMeans
    from client.estimators.local_private import LocalPrivateKModes as LocalPrivateKModes
    from client.estimators.local_split import LocalPrivateSplitKMeans as LocalPrivateSplitKMeans
    from client.estimators.record_linkage import RecordLinkage as RecordLinkage
    from client.estimators.secure_kmeans import SecureKMeans as SecureKMeans
    from client.estimators.secure_totals import SecureTotals as SecureTotals
    from client.operator import Operator as Operator
    from client.owner import Owner as Owner
    from client.platforms.direct import link_with as link_with
    from client.platforms.remote import RemotePlatform as RemotePlatform
    from client.platforms.threads import ThreadPlatform as ThreadPlatform
    from client.sending import Receipt as Receipt
    from ppodc import rules as rules
    from ppodc.errors import JobEndedError as JobEndedError
    from ppodc.kmeans.result import Result as Result
    from ppodc.local.platform import LocalPlatform as LocalPlatform
    from ppodc.spec import Spec as Spec

__version__ = "0.1.0"  # the only place; the package, the command and the desk read it

_PLACES = {
    "JobEndedError": "ppodc.errors",
    "ListedDataset": "client.both_clouds",
    "LocalPlatform": "ppodc.local.platform",
    "LocalPrivateDBSCAN": "client.estimators.local_dbscan",
    "LocalPrivateKMeans": "client.estimators.local_private",
    "LocalPrivateKModes": "client.estimators.local_private",
    "LocalPrivateKPrototypes": "client.estimators.local_mixed",
    "LocalPrivateSplitKMeans": "client.estimators.local_split",
    "Operator": "client.operator",
    "Owner": "client.owner",
    "PrivacyAccountant": "client.accountant",
    "Receipt": "client.sending",
    "RecordLinkage": "client.estimators.record_linkage",
    "RemotePlatform": "client.platforms.remote",
    "Result": "ppodc.kmeans.result",
    "SecureKMeans": "client.estimators.secure_kmeans",
    "SecureTotals": "client.estimators.secure_totals",
    "Spec": "ppodc.spec",
    "ThreadPlatform": "client.platforms.threads",
    "link_with": "client.platforms.direct",
    "rules": "ppodc.rules",  # a module
}

__all__ = [
    "JobEndedError",
    "ListedDataset",
    "LocalPlatform",
    "LocalPrivateDBSCAN",
    "LocalPrivateKMeans",
    "LocalPrivateKModes",
    "LocalPrivateKPrototypes",
    "LocalPrivateSplitKMeans",
    "Operator",
    "Owner",
    "PrivacyAccountant",
    "Receipt",
    "RecordLinkage",
    "RemotePlatform",
    "Result",
    "SecureKMeans",
    "SecureTotals",
    "Spec",
    "ThreadPlatform",
    "link_with",
    "rules",
]


if not TYPE_CHECKING:  # a type checker that saw it would let every name pass

    def __getattr__(name: str) -> Any:
        place = _PLACES.get(name)
        if place is None:
            raise AttributeError(f"module 'ppodc' has no attribute {name!r}")
        _check_own(place.partition(".")[0])
        with named_if_missing():
            module = import_module(place)
        return module if place == f"ppodc.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})


def _check_own(package: str) -> None:
    """Refuse somebody else's module of this name: it may be first on the user's path."""
    found, home = find_spec(package), Path(__file__).parents[1]
    origin = found.origin if found is not None else None
    if origin is None or Path(origin) != home / package / "__init__.py":
        raise ImportError(
            f"{origin or 'nothing'} stands where ppodc looks for {home / package}: rename that "
            "module, or put it into a package of your project."
        )
