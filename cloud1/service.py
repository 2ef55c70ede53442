"""C1's gateway as a long-running service: owners upload and fetch here. It needs no Ray.

Alone, as the collector of perturbed reports, it is the same service.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ppodc.service.admitted import LOOK_SECONDS, Doorkeeper, callers
from ppodc.service.config import Cloud1Config, load_first
from ppodc.service.health import health_endpoint, service_checks
from ppodc.service.metrics import ServiceMetrics
from ppodc.service.operations import owner_operations
from ppodc.service.running import (
    forget_old,
    limits,
    raise_descriptor_limit,
    regularly,
    until_signal,
)
from ppodc.service.spec_check import spec_check
from ppodc.service.store import Store
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway


def serve(config_file: Path, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `ready` hears the endpoint once the port is open."""
    config = load_first(config_file)
    pools = config.pools if isinstance(config, Cloud1Config) else None
    raise_descriptor_limit()
    with (
        Store.open(config.store, "cloud1") as store,
        regularly(partial(forget_old, store, config.quotas)),
        Gateway(
            config.listen,
            CurveKeys.load(config.key),
            callers(config_file, config),
            owner_operations(store, config.quotas, spec_check(config_file, config)),
            limits=limits(config),
        ) as gateway,
        regularly(Doorkeeper(config_file, config, gateway, store).look, seconds=LOOK_SECONDS),
        health_endpoint(
            config.health,
            ServiceMetrics(store, {"owners": gateway}, pools),
            service_checks(store, {"owners": gateway}),
        ),
    ):
        until_signal(lambda: ready(gateway.endpoint))
