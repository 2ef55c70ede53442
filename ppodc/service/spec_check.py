"""Checks of a new spec against a deployment: can it run here, and can its owners call?

A name of a dataset serves once. A spec whose owners no cloud admits, or whose kind this deployment
cannot run, would burn it; so the gateway refuses such a spec before it creates anything.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from ppodc.errors import SpecError
from ppodc.service.admitted import callers
from ppodc.service.config import Cloud1Config, Cloud2Config, CloudConfig, CollectorConfig
from ppodc.spec import Spec
from ppodc.transport.call_server import Peer

SpecCheck = Callable[[Spec], None]


def spec_check(config_file: Path, config: CloudConfig) -> SpecCheck:
    """InputError, from the returned function, for a spec that nobody could use at this cloud."""

    def check(spec: Spec) -> None:
        check_kind(spec, alone=isinstance(config, CollectorConfig))
        if not isinstance(config, CollectorConfig):
            check_supplies(spec, config)
        check_keys(spec, callers(config_file, config))

    return check


def check_kind(spec: Spec, *, alone: bool) -> None:
    """Refuse a spec whose kind of job a single server, or a pair of clouds, cannot run."""
    kind = spec.job.kind
    if alone and spec.kind.suites:
        raise SpecError(
            f"this deployment is a single server, which cannot run jobs of the kind {kind!r}. They "
            "need two clouds: ppodc init FOLDER."
        )
    if not alone and not spec.kind.suites:
        raise SpecError(
            f"this deployment has two clouds, which run no jobs of the kind {kind!r}. They need a "
            "single server: ppodc init FOLDER --kind local."
        )


def check_supplies(spec: Spec, config: Cloud1Config | Cloud2Config) -> None:
    """Refuse silent supplies where this cloud has not consented to them."""
    if spec.job.silent and not config.silent_supplies:
        raise SpecError(
            f'dataset {spec.name!r} has supplies = "silent", which rest on an assumption that '
            f"{config.role} has not consented to. Leave the key out of the spec, or have "
            f"silent_supplies = true put into {config.role}.toml."
        )


def check_keys(spec: Spec, known: Mapping[bytes, Peer]) -> None:
    """Refuse a spec with owners whose keys this cloud does not let in."""
    newer = {old: peer for peer in known.values() for old in peer.former}
    for name, key in spec.require_owners().keys:
        peer = known.get(key.encode())
        if key in newer:
            raise SpecError(
                f"owners.keys.{name} was replaced by a new key of {newer[key].name!r} here. Put "
                f"the new one into the spec: {newer[key].key}"
            )
        if peer is None:
            raise SpecError(
                f"owners.keys.{name} is a key that this cloud does not admit. Check it, or let the "
                "owner in first, at every cloud: ppodc admit NAME.answer."
            )
        if peer.role != "owner":
            raise SpecError(f"owners.keys.{name} is the key of the {peer.role} {peer.name!r}.")
