"""Clusters for `ray up`, and the lab by hand, read with Ray's own parser.

Shell lines run with a `ray` that only prints its arguments.
"""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster_configs.samples import (
    FEDERATED,
    LAB,
    RAY_UPS,
    config,
    parse,
    ray_command,
    resources,
    shown,
)


@pytest.mark.parametrize("path", RAY_UPS, ids=shown)
def test_ray_accepts_the_cluster(path):
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(yaml.safe_load(path.read_text()))
    validate_config(prepared)
    node = prepared["available_node_types"][prepared["head_node_type"]]
    assert node["min_workers"] == len(prepared["provider"]["worker_ips"]) == node["max_workers"]


def test_ray_accepts_the_cluster_of_a_provider():
    """Nothing is bootstrapped: that would need an account."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    path = FEDERATED / "cloud1" / "ray_up_aws.yaml"
    assert "NOT RUN" in path.read_text()
    prepared = prepare_config(yaml.safe_load(path.read_text()))
    validate_config(prepared)
    types = prepared["available_node_types"]
    assert prepared["head_node_type"] == "head"
    assert types["head"]["resources"] == {"CPU": 0}
    assert types["worker"]["min_workers"] == prepared["max_workers"] == 4
    arguments, mode = ray_arguments(prepared["worker_start_ray_commands"][-1])
    assert mode == "token"
    offered = resources(arguments)
    assert offered["cloud1"] == types["worker"]["resources"]["cloud1"]


def ray_arguments(lines: str, address: str = "10.0.0.1") -> tuple[list[str], str]:
    """Run shell lines with a `ray` that prints: (its arguments, RAY_AUTH_MODE that it saw)."""
    prelude = (
        'ray() { printf "%s\\n" "$RAY_AUTH_MODE" "$@"; }; mkdir() { true; }; '
        f"hostname() {{ echo '172.17.0.1 {address}'; }}; RAY_HEAD_IP=10.0.0.9; "
    )
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
    done = subprocess.run(
        ["bash", "-c", prelude + lines.replace("ulimit", "true ulimit")],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    mode, *arguments = done.stdout.splitlines()
    return arguments, mode


@pytest.mark.parametrize("path", RAY_UPS, ids=shown)
def test_the_nodes_start_with_a_token_and_their_resource(path):
    cluster = yaml.safe_load(path.read_text())
    head, mode = ray_arguments(cluster["head_start_ray_commands"][-1])
    assert mode == "token"
    assert resources(head) == {}
    assert parse(ray_command(), head).params["dashboard_host"] == "127.0.0.1"
    assert parse(ray_command(), head).params["temp_dir"] == "/nowhere/ray/files"
    offered = {"cloud1": 0.0, "cloud2": 0.0}
    for address in cluster["provider"]["worker_ips"]:
        arguments, mode = ray_arguments(cluster["worker_start_ray_commands"][-1], address)
        assert mode == "token"
        assert parse(ray_command(), arguments).params["address"] == "10.0.0.9:6379"
        assert parse(ray_command(), arguments).params["temp_dir"] == "/nowhere/ray/files"
        for name, count in resources(arguments).items():
            offered[name] += count
    if path.parent == LAB:
        assert offered == {"cloud1": 8, "cloud2": 8}
        assert len(cluster["provider"]["worker_ips"]) == 16
        assert config(LAB / "cloud1.toml").pairs == config(LAB / "cloud2.toml").max_pairs == 8
    else:
        cloud = path.parent.name
        assert offered == {"cloud1": 0, "cloud2": 0} | {cloud: 8}


def test_an_unknown_machine_of_the_lab_is_refused():
    cluster = yaml.safe_load((LAB / "ray_up.yaml").read_text())
    with pytest.raises(subprocess.CalledProcessError, match="status 1"):
        ray_arguments(cluster["worker_start_ray_commands"][-1], "10.20.3.1")


@pytest.mark.parametrize("path", RAY_UPS, ids=shown)
def test_secrets_go_to_the_right_machines_only(path):
    cluster = yaml.safe_load(path.read_text())
    mounts = cluster["file_mounts"]
    assert mounts["/home/ppodc/.ray/auth_token"] == "/home/ppodc/.ray/auth_token"
    secrets = [target for target in mounts if target.endswith(".secret")]
    homes = {"lab_cluster": "deployment/cloud2", "cloud2": "cloud2"}
    home = homes.get(path.parent.name)
    assert secrets == ([f"/home/ppodc/{home}/keys/paillier.secret"] if home else [])
    if home:
        named = config(path.with_name("cloud2.toml")).paillier_secret
        assert named.relative_to(path.parent) == Path("keys/paillier.secret")


def lab_start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ray_start.sh in a home of its own, with a `ray` that prints."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    ray = programs / "ray"
    ray.write_text('#!/bin/sh\nprintf "%s\\n" "$RAY_AUTH_MODE" "$@"\n')
    ray.chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder)}
    command = ["bash", str(LAB / "ray_start.sh"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_the_lab_by_hand_starts_like_ray_up(tmp_path):
    assert "get-auth-token" in lab_start(tmp_path, "head").stderr
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0123")
    for part, offered in (("head", {}), ("cloud1", {"cloud1": 1}), ("cloud2", {"cloud2": 1})):
        mode, *arguments = lab_start(tmp_path, part).stdout.splitlines()
        assert mode == "token"
        assert resources(arguments) == offered
        files = parse(ray_command(), arguments).params["temp_dir"]
        assert Path(files).parent.stat().st_mode & 0o077 == 0
    assert lab_start(tmp_path, "cloud3").returncode == 2
