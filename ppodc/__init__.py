"""Exact k-means, and other jobs, on records that nobody may see.

`from ppodc import SecureKMeans, Owner, ...` gives what users need, wherever it lives. A name is
loaded when it is first used: services, workers and commands that need no estimator do not wait for
scikit-learn, and nothing in here depends on the owners' code.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_PLACES = {
    "JobEndedError": "ppodc.errors",
    "ListedDataset": "client.both_clouds",
    "LocalPlatform": "ppodc.local.platform",
    "LocalPrivateDBSCAN": "client.local_dbscan",
    "LocalPrivateKMeans": "client.local_private",
    "LocalPrivateKModes": "client.local_private",
    "Operator": "client.operator",
    "Owner": "client.owner",
    "Receipt": "client.sending",
    "RecordLinkage": "client.record_linkage",
    "RemotePlatform": "client.platforms",
    "Result": "ppodc.kmeans.result",
    "SecureKMeans": "client.secure_kmeans",
    "SecureTotals": "client.secure_totals",
    "Spec": "ppodc.spec",
    "ThreadPlatform": "ppodc.local.thread_platform",
    "link_with": "client.direct_linkage",
    "rules": "ppodc.rules",  # a module
}

__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'ppodc' has no attribute {name!r}")
    _check_own(place.partition(".")[0])
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
