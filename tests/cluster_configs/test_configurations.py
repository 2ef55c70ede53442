"""The configurations load, fit each other and explain every key."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from msgspec import Struct

from ppodc.service.config_text import to_toml
from ppodc.transport.curve_keys import check_public
from tests.cluster_configs.samples import (
    CLOUDS,
    FEDERATED,
    LAB,
    ONE_MACHINE,
    SINGLE_SERVER,
    config,
    found,
    port,
    shown,
)


@pytest.mark.parametrize("path", found("*.toml"), ids=shown)
def test_every_configuration_loads(path):
    loaded = config(path)
    assert loaded.role == path.name.partition(".")[0]
    keys = re.findall(r'= "(REPLACE.*)"', path.read_text())
    assert keys
    for key in keys:
        assert check_public(key.encode())


INITS = sorted([*ONE_MACHINE.glob("*.toml"), *SINGLE_SERVER.glob("*.toml")])


@pytest.mark.parametrize("path", INITS, ids=shown)
def test_small_deployments_are_what_init_writes(path):
    """After a change to the configuration classes, copy what `ppodc init` writes now."""
    assert path.read_text() == to_toml(config(path), path.parent.resolve())


def described(path: Path) -> dict[str, bool]:
    """Each key of the file (table.key inside a table): is there a comment right above it?"""
    keys, table, above = {}, "", ""
    for line in path.read_text().splitlines():
        head = re.match(r"\[(\w+)\]|(\w+) = ", line)
        if head is not None:
            name = head[1] or (f"{table}.{head[2]}" if table else head[2])
            keys[name] = above.startswith("# ")
            table = head[1] or table
        above = line
    return keys


def expected(kind: type[Struct]) -> set[str]:
    names = set()
    for field, hint in get_type_hints(kind).items():
        names.add(field)
        for part in get_args(hint) or (hint,):
            if isinstance(part, type) and issubclass(part, Struct):
                names |= {f"{field}.{inner}" for inner in get_type_hints(part)}
    return names


ADVANCED = (
    *found("*.advanced.toml"),
    FEDERATED / "owner.toml",
    LAB / "cloud1.toml",
    LAB / "cloud2.toml",
    *sorted(ONE_MACHINE.glob("*.toml")),
)


@pytest.mark.parametrize("path", ADVANCED, ids=shown)
def test_advanced_samples_have_and_explain_every_key(path):
    keys = described(path)
    listed = {name for name in keys if not name.startswith(("owners.", "operators."))}
    # one machine does not offer the paillier suite, and no sample a split key
    key = {"paillier_share"}
    key |= {"paillier_public", "paillier_secret"} if path.parent == ONE_MACHINE else set()
    assert listed == expected(type(config(path))) - key
    assert [name for name in listed if not keys[name]] == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_basic_and_advanced_samples_say_the_same(cloud):
    folder = FEDERATED / cloud
    assert config(folder / f"{cloud}.toml") == config(folder / f"{cloud}.advanced.toml")


def test_the_parties_of_a_single_server_fit_each_other():
    files = {path.name: config(path) for path in SINGLE_SERVER.glob("*.toml")}
    collector = files["collector.toml"]
    for caller in (files["owner.toml"], files["operator.toml"]):
        assert caller.cloud2 is None
        assert port(caller.cloud1.endpoint) == port(collector.listen)
        assert caller.name in (collector.owners if caller.role == "owner" else collector.operators)


@pytest.mark.parametrize("folder", [ONE_MACHINE, LAB, FEDERATED], ids=shown)
def test_the_parties_of_a_deployment_fit_each_other(folder):
    files = {path.name: config(path) for path in folder.rglob("*.toml")}
    first, second = files["cloud1.toml"], files["cloud2.toml"]
    assert first.pairs <= second.max_pairs
    assert first.owners == second.owners
    assert first.operators == second.operators
    assert port(first.cloud2.endpoint) == port(second.listen_control)
    for caller in (files[name] for name in ("owner.toml", "operator.toml") if name in files):
        assert caller.cloud2.public_key == first.cloud2.public_key
        assert port(caller.cloud2.endpoint) == port(second.listen)
        assert caller.cloud1.public_key == second.cloud1.public_key
        assert port(caller.cloud1.endpoint) == port(first.listen)
        assert caller.name in (first.owners if caller.role == "owner" else first.operators)
