"""The manifests fit the configurations and the service; nothing here needs Kubernetes."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ppodc.service import deployment
from ppodc.service.config import Cloud2Config
from tests.cluster_configs.samples import (
    CLOUDS,
    FEDERATED,
    ROOT,
    config,
    found,
    manifests,
    of_kind,
    parse,
    pods,
    port,
    ppodc_command,
    resources,
    shown,
    version,
)
from tests.harness.patience import LONG, wait_for


@pytest.mark.parametrize("path", found("*.yaml"), ids=shown)
def test_every_yaml_parses(path):
    assert all(isinstance(d, dict) for d in yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_manifests_hold_no_secret(cloud):
    assert not [d for d in manifests(cloud) if d["kind"] == "Secret"]
    named = {f"ppodc-{cloud}-curve"} | ({"ppodc-cloud2-paillier"} if cloud == "cloud2" else set())
    volumes = [v for pod in pods(cloud).values() for v in pod["spec"].get("volumes", [])]
    assert {v["secret"]["secretName"] for v in volumes if "secret" in v} == named
    readme = (FEDERATED / cloud / "README.md").read_text()
    for name in named:
        assert f"create secret generic {name} " in readme


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_ray_cluster_fits_the_configuration(cloud):
    ray = of_kind(cloud, "RayCluster")[0]
    spec, workers = ray["spec"], ray["spec"]["workerGroupSpecs"][0]
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert f"ray=={spec['rayVersion']}" in (ROOT / "constraints.txt").read_text().split()
    # KubeRay puts the parameters into a shell line as they are.
    line = "start --address=x:1 --resources=" + workers["rayStartParams"]["resources"]
    offered = resources(shlex.split(line))
    assert list(offered) == [cloud]
    places = workers["replicas"] * offered[cloud]
    loaded = config(FEDERATED / cloud / f"{cloud}.toml")
    if isinstance(loaded, Cloud2Config):
        first, last = loaded.worker_ports
        assert loaded.max_pairs == places
        assert last - first + 1 >= 2 * offered[cloud]
    else:
        assert loaded.pairs <= places - offered[cloud], "one pod may be lost"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_gateway_fits_configuration_and_service(cloud):
    loaded = config(FEDERATED / cloud / f"{cloud}.toml")
    pod = pods(cloud)["gateway"]
    container = pod["spec"]["containers"][0]
    ports = [port(loaded.listen)]
    if isinstance(loaded, Cloud2Config):
        ports.append(port(loaded.listen_control))
    assert [p["containerPort"] for p in container["ports"]] == ports
    service = of_kind(cloud, "Service")[0]["spec"]
    assert [p["port"] for p in service["ports"]] == ports
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    stateful = of_kind(cloud, "StatefulSet")[0]["spec"]
    assert stateful["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert stateful["replicas"] == 1
    command = container["args"][container["args"].index("ppodc") + 1 :]
    parsed = parse(ppodc_command(), command)
    assert parsed.params["config"] == Path(f"/ppodc/{cloud}.toml")


def mounted(pod: dict[str, Any], container: dict[str, Any], path: Path) -> str:
    """The kind of the volume behind a path in a container."""
    best = max(
        (m for m in container["volumeMounts"] if path.is_relative_to(m["mountPath"])),
        key=lambda m: len(m["mountPath"]),
    )
    volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
    volume = volumes.get(best["name"], {"name": best["name"], "claim": {}})
    return next(kind for kind in volume if kind != "name")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_paths_of_the_configuration_are_mounted(cloud):
    folder = FEDERATED / cloud
    loaded = config(folder / f"{cloud}.toml")

    def inside(path: Path) -> Path:
        return Path("/ppodc") / path.relative_to(folder)

    gateway = pods(cloud)["gateway"]
    for container in gateway["spec"]["containers"]:
        assert mounted(gateway, container, Path(f"/ppodc/{cloud}.toml")) == "configMap"
        assert mounted(gateway, container, inside(loaded.key)) == "emptyDir"
        assert mounted(gateway, container, inside(loaded.store)) == "claim"
        # The store makes itself private, which it may not do to the volume's own root.
        mounts = [m["mountPath"] for m in container["volumeMounts"]]
        assert str(inside(loaded.store)) not in mounts
    workers = pods(cloud)["workers"]
    container = workers["spec"]["containers"][0]
    # Randomness made ahead goes with the pod: a volume that outlives it could come back.
    assert mounted(workers, container, inside(loaded.pools)) == "emptyDir"
    if isinstance(loaded, Cloud2Config):
        assert mounted(workers, container, inside(loaded.paillier_secret)) == "emptyDir"
    for pod in pods(cloud).values():
        for copy in pod["spec"].get("initContainers", []):
            sources = re.findall(r"(/incoming/\w+)/\*", copy["command"][-1])
            mounts = {m["mountPath"] for m in copy["volumeMounts"]}
            assert mounts == {*sources, "/ppodc/keys"}
            assert "install -m 0600 -t /ppodc/keys " in copy["command"][-1]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_ray_node_has_the_token(cloud):
    ray_nodes = [
        c
        for c in pods(cloud)["gateway"]["spec"]["containers"]
        if "ray" in c["args"] or "gateway_beside_ray.sh" in c["args"]
    ]
    assert len(ray_nodes) == 1
    environment = {e["name"]: e for e in ray_nodes[0]["env"]}
    assert environment["RAY_AUTH_MODE"]["value"] == "token"
    # KubeRay makes this Secret, under the name of the cluster.
    name = of_kind(cloud, "RayCluster")[0]["metadata"]["name"]
    wanted = {"name": name, "key": "auth_token"}
    assert environment["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"] == wanted
    assert any(f"{name}-head-svc:6379" in a for a in ray_nodes[0]["args"])


def test_the_master_runs_beside_the_store():
    master = pods("cloud1")["gateway"]["spec"]["containers"][1]
    assert resources(master["args"][1:]) == {"master": 1}
    readme = (FEDERATED / "cloud1" / "README.md").read_text()
    assert """--entrypoint-resources '{"master": 1}' -- ppodc run""" in readme


@pytest.mark.parametrize("cloud", CLOUDS)
def test_pods_are_confined(cloud):
    for pod in pods(cloud).values():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["automountServiceAccountToken"] is False
        assert not spec.get("hostNetwork")
        for container in (*spec["containers"], *spec.get("initContainers", [])):
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["image"] == f"registry.example/ppodc:{version()}"


class Beside:
    """gateway_beside_ray.sh with the real service; in place of a Ray node something that waits."""

    def __init__(self, folder: Path, config_file: Path) -> None:
        (folder / "ray").write_text(f"#!/bin/sh\necho $$ > {folder}/node\nexec sleep 600\n")
        (folder / "ray").chmod(0o755)
        self._node = folder / "node"
        script = FEDERATED / "cloud2" / "gateway_beside_ray.sh"
        service = [sys.executable, "-m", "ppodc.cli", "cloud2", "serve", "--config"]
        self.process = subprocess.Popen(
            ["bash", str(script), "nowhere:6379", *service, str(config_file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "NODE_PAUSE": "0.1"},
        )

    def until_ready(self) -> None:
        assert self.process.stdout is not None
        assert "cloud2 listens at" in self.process.stdout.readline()

    @property
    def node(self) -> int:
        wait_for(lambda: self._node.exists() and self._node.read_text())
        return int(self._node.read_text())

    def end(self) -> tuple[int, str]:
        """Wait for it: (exit code, what it wrote); nothing of it may be left."""
        node = self.node
        _, said = self.process.communicate(timeout=LONG)
        with pytest.raises(ProcessLookupError):
            os.kill(node, 0)
        return self.process.returncode, said


@pytest.fixture
def service_config(tmp_path):
    made = deployment.create(
        tmp_path / "deployment",
        1,
        cloud1_listen="tcp://127.0.0.1:0",
        cloud2_listen="tcp://127.0.0.1:0",
        cloud2_listen_control="tcp://127.0.0.1:0",
        insecure_key_bits=256,
    )
    return made.party("cloud2").config


def test_sigterm_stops_the_service_in_order_and_then_the_node(tmp_path, service_config):
    beside = Beside(tmp_path, service_config)
    beside.until_ready()
    beside.process.terminate()
    code, said = beside.end()
    assert code in (0, 128 + signal.SIGTERM)  # the latter if it came in the very first moment
    assert "stopped serving" in said


def test_a_ray_node_that_ends_is_started_again_and_the_service_stays(tmp_path, service_config):
    beside = Beside(tmp_path, service_config)
    beside.until_ready()
    for _ in range(2):
        node = beside.node
        os.kill(node, signal.SIGKILL)
        wait_for(lambda node=node: beside.node != node)
        assert beside.process.poll() is None
    beside.process.terminate()
    _, said = beside.end()
    assert "stopped serving" in said
    assert said.count("it is started again") == 2


def test_a_service_that_cannot_start_takes_its_node_along(tmp_path):
    code, said = Beside(tmp_path, tmp_path / "missing.toml").end()
    assert code != 0
    assert "missing.toml" in said
