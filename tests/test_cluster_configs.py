"""The samples in cluster_configs are true: they load, fit each other and name real commands.

Nothing here needs docker, Kubernetes or more machines: manifests are read, and shell lines run
with a `ray` that only prints its arguments, which Ray's own parser then reads.
"""

import ipaddress
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest
import typer
import yaml
from msgspec import Struct

from ppodc.cli import app
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, Cloud2Config, OwnerConfig, load, to_toml
from ppodc.transport.curve_keys import check_public

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "cluster_configs"
FEDERATED = CONFIGS / "federated"
LAB = CONFIGS / "lab_cluster"
ONE_MACHINE = CONFIGS / "one_machine"
CLOUDS = ("cloud1", "cloud2")
KINDS = {"cloud1": Cloud1Config, "cloud2": Cloud2Config, "owner": OwnerConfig}
KINDS["operator"] = OwnerConfig
RAY_UPS = (LAB / "ray_up.yaml", *(FEDERATED / cloud / "ray_up.yaml" for cloud in CLOUDS))


def found(pattern: str) -> list[Path]:
    files = sorted(CONFIGS.rglob(pattern))
    assert files
    return files


def shown(path: Path) -> str:
    return str(path.relative_to(CONFIGS))


def config(path: Path) -> Any:
    return load(path, KINDS[path.name.partition(".")[0]])


def port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


# ------------------------------------------------------------ configurations


@pytest.mark.parametrize("path", found("*.toml"), ids=shown)
def test_every_configuration_loads(path):
    loaded = config(path)
    assert loaded.role == path.name.partition(".")[0]
    keys = re.findall(r'= "(REPLACE.*)"', path.read_text())
    assert keys
    for key in keys:
        assert check_public(key.encode())


@pytest.mark.parametrize("path", sorted(ONE_MACHINE.glob("*.toml")), ids=shown)
def test_one_machine_is_what_init_writes(path):
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
        if isinstance(hint, type) and issubclass(hint, Struct):
            names |= {f"{field}.{inner}" for inner in get_type_hints(hint)}
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
    assert listed == expected(type(config(path)))
    assert [name for name in listed if not keys[name]] == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_basic_and_advanced_samples_say_the_same(cloud):
    folder = FEDERATED / cloud
    assert config(folder / f"{cloud}.toml") == config(folder / f"{cloud}.advanced.toml")


@pytest.mark.parametrize("folder", [ONE_MACHINE, LAB, FEDERATED], ids=shown)
def test_the_parties_of_a_deployment_fit_each_other(folder):
    files = {path.name: config(path) for path in folder.rglob("*.toml")}
    first, second = files["cloud1.toml"], files["cloud2.toml"]
    assert first.pairs <= second.max_pairs
    assert first.owners == second.owners
    assert first.operators == second.operators
    assert port(first.cloud2.endpoint) == port(second.listen)
    for caller in (files[name] for name in ("owner.toml", "operator.toml") if name in files):
        assert caller.cloud2 == first.cloud2
        assert caller.cloud1.public_key == second.cloud1.public_key
        assert port(caller.cloud1.endpoint) == port(first.listen)
        assert caller.name in (first.owners if caller.role == "owner" else first.operators)


# ------------------------------------------------------------------ ray up


@pytest.mark.parametrize("path", RAY_UPS, ids=shown)
def test_ray_accepts_the_cluster(path):
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(yaml.safe_load(path.read_text()))
    validate_config(prepared)
    node = prepared["available_node_types"][prepared["head_node_type"]]
    assert node["min_workers"] == len(prepared["provider"]["worker_ips"]) == node["max_workers"]


def ray_arguments(lines: str, address: str = "10.0.0.1") -> tuple[list[str], str]:
    """Run shell lines with a `ray` that prints: (its arguments, RAY_AUTH_MODE that it saw)."""
    prelude = (
        'ray() { printf "%s\\n" "$RAY_AUTH_MODE" "$@"; }; '
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


def resources(arguments: list[str]) -> dict[str, float]:
    """What this `ray start` offers; every option must be one of Ray's."""
    parsed = parse(ray_command(), arguments).params
    return json.loads(parsed["resources"])


@pytest.mark.parametrize("path", RAY_UPS, ids=shown)
def test_the_nodes_start_with_a_token_and_their_resource(path):
    cluster = yaml.safe_load(path.read_text())
    head, mode = ray_arguments(cluster["head_start_ray_commands"][-1])
    assert mode == "token"
    assert resources(head) == {}
    assert parse(ray_command(), head).params["dashboard_host"] == "127.0.0.1"
    offered = {"cloud1": 0.0, "cloud2": 0.0}
    for address in cluster["provider"]["worker_ips"]:
        arguments, mode = ray_arguments(cluster["worker_start_ray_commands"][-1], address)
        assert mode == "token"
        assert parse(ray_command(), arguments).params["address"] == "10.0.0.9:6379"
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
    assert lab_start(tmp_path, "cloud3").returncode == 2


# -------------------------------------------------------------- Kubernetes


@cache
def manifests(cloud: str) -> list[dict[str, Any]]:
    """What `kubectl apply -k` of this folder reads."""
    folder = FEDERATED / cloud
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert kustomization["configMapGenerator"][0]["files"] == [f"{cloud}.toml"]
    documents: list[dict[str, Any]] = []
    for name in kustomization["resources"]:
        documents += yaml.safe_load_all((folder / name).read_text())
    namespaces = [d["metadata"]["name"] for d in documents if d["kind"] == "Namespace"]
    assert namespaces == [kustomization["namespace"]]
    return documents


def of_kind(cloud: str, kind: str) -> list[dict[str, Any]]:
    documents = [d for d in manifests(cloud) if d["kind"] == kind]
    assert documents, f"{cloud} has no {kind}"
    return documents


def pods(cloud: str) -> dict[str, dict[str, Any]]:
    """Pod templates: gateway, head and workers."""
    ray = of_kind(cloud, "RayCluster")[0]["spec"]
    return {
        "gateway": of_kind(cloud, "StatefulSet")[0]["spec"]["template"],
        "head": ray["headGroupSpec"]["template"],
        "workers": ray["workerGroupSpecs"][0]["template"],
    }


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
    assert [p["containerPort"] for p in container["ports"]] == [port(loaded.listen)]
    service = of_kind(cloud, "Service")[0]["spec"]
    assert [p["port"] for p in service["ports"]] == [port(loaded.listen)]
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


# ------------------------------------------- the service and its Ray node


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
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        )

    def until_ready(self) -> None:
        assert self.process.stdout is not None
        assert "cloud2 listens at" in self.process.stdout.readline()

    @property
    def node(self) -> int:
        while not self._node.exists() or not self._node.read_text():
            time.sleep(0.05)
        return int(self._node.read_text())

    def end(self) -> tuple[int, str]:
        """Wait for it: (exit code, what it wrote); nothing of it may be left."""
        node = self.node
        _, said = self.process.communicate(timeout=60)
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


def test_without_its_ray_node_the_service_stops(tmp_path, service_config):
    beside = Beside(tmp_path, service_config)
    beside.until_ready()
    os.kill(beside.node, signal.SIGKILL)
    _, said = beside.end()
    assert "stopped serving" in said


def test_a_service_that_cannot_start_takes_its_node_along(tmp_path):
    code, said = Beside(tmp_path, tmp_path / "missing.toml").end()
    assert code != 0
    assert "missing.toml" in said


# ----------------------------------------------------------- network policy

OWNER, FIRST, STRANGER = "192.0.2.7", "198.51.100.9", "8.8.8.8"


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def peer_fits(peer: dict[str, Any], who: str | dict[str, str]) -> bool:
    """`who` is an address outside, or the labels of a pod of the same namespace."""
    if isinstance(who, str):
        block = peer.get("ipBlock")
        return block is not None and (
            ipaddress.ip_address(who) in ipaddress.ip_network(block["cidr"])
        )
    return "podSelector" in peer and selects(peer["podSelector"], who)


def port_fits(rule: dict[str, Any], number: int) -> bool:
    ports = rule.get("ports")
    return ports is None or any(
        p["protocol"] == "TCP" and p["port"] <= number <= p.get("endPort", p["port"]) for p in ports
    )


def allowed(
    cloud: str, direction: str, pod: dict[str, str], who: str | dict[str, str], number: int
) -> bool:
    """Whether the policies let TCP of this port through, as Kubernetes decides it."""
    key, side = ("ingress", "from") if direction == "in" else ("egress", "to")
    applying = [
        p["spec"]
        for p in of_kind(cloud, "NetworkPolicy")
        if selects(p["spec"]["podSelector"], pod) and key.capitalize() in p["spec"]["policyTypes"]
    ]
    assert applying, "a pod that no policy selects is open to all"
    return any(
        port_fits(rule, number) and any(peer_fits(peer, who) for peer in rule[side])
        for policy in applying
        for rule in policy.get(key, [])
    )


def labels(cloud: str) -> dict[str, dict[str, str]]:
    return {name: pod["metadata"]["labels"] for name, pod in pods(cloud).items()}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_nobody_outside_reaches_ray(cloud):
    inside = labels(cloud)
    for pod in inside.values():
        for number in (6379, 8265, 10001, 8076, 52365):
            for who in (OWNER, FIRST, STRANGER, {"app": "another pod"}):
                assert not allowed(cloud, "in", pod, who, number)
            for other in inside.values():
                assert allowed(cloud, "in", pod, other, number)
                assert allowed(cloud, "out", pod, other, number)
        assert not allowed(cloud, "out", pod, STRANGER, 443)


def test_only_owners_reach_the_gateway_of_cloud1():
    gateway = port(config(FEDERATED / "cloud1" / "cloud1.toml").listen)
    for name, pod in labels("cloud1").items():
        assert allowed("cloud1", "in", pod, OWNER, gateway) == (name == "gateway")
        assert not allowed("cloud1", "in", pod, FIRST, gateway)
        assert not allowed("cloud1", "in", pod, STRANGER, gateway)


def test_owners_and_cloud1_reach_cloud2_and_its_workers():
    loaded = config(FEDERATED / "cloud2" / "cloud2.toml")
    gateway, (first, last) = port(loaded.listen), loaded.worker_ports
    for name, pod in labels("cloud2").items():
        for who in (OWNER, FIRST):
            assert allowed("cloud2", "in", pod, who, gateway) == (name == "gateway")
        assert not allowed("cloud2", "in", pod, STRANGER, gateway)
        for number in (first - 1, first, last, last + 1):
            open_now = name == "workers" and first <= number <= last
            assert allowed("cloud2", "in", pod, FIRST, number) == open_now
            assert not allowed("cloud2", "in", pod, OWNER, number)


def test_cloud1_may_call_cloud2():
    loaded = config(FEDERATED / "cloud2" / "cloud2.toml")
    pod = labels("cloud1")
    assert allowed("cloud1", "out", pod["gateway"], "203.0.113.10", port(loaded.listen))
    for number in loaded.worker_ports:
        assert allowed("cloud1", "out", pod["workers"], "203.0.113.200", number)
        assert not allowed("cloud1", "out", pod["gateway"], "203.0.113.200", number)


def test_the_load_balancer_lets_in_who_the_policy_lets_in():
    for cloud in CLOUDS:
        policies = {p["metadata"]["name"]: p["spec"] for p in of_kind(cloud, "NetworkPolicy")}
        admitted = {p["ipBlock"]["cidr"] for p in policies["gateway"]["ingress"][0]["from"]}
        service = of_kind(cloud, "Service")[0]["spec"]
        assert set(service["loadBalancerSourceRanges"]) == admitted
        assert service["externalTrafficPolicy"] == "Local"


# ------------------------------------------------------- image and commands


def version() -> str:
    found_version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert found_version is not None
    return found_version[1]


def test_the_image_is_made_from_files_that_exist():
    text = (CONFIGS / "Dockerfile").read_text()
    sources = [
        name
        for line in re.findall(r"^COPY (.+)$", text, re.M)
        for name in line.split()[:-1]
        if not name.startswith("--")
    ]
    assert {"constraints.txt", "ppodc", "cloud1", "cloud2", "master", "client"} <= set(sources)
    ignore = (CONFIGS / "Dockerfile.dockerignore").read_text().splitlines()
    for name in sources:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignore
    assert "-c /src/constraints.txt" in text
    script = ROOT / next(name for name in sources if name.endswith(".sh"))
    assert script.name in pods("cloud2")["gateway"]["spec"]["containers"][0]["args"]
    assert os.access(script, os.X_OK)


def test_versions_agree():
    for path in (*RAY_UPS, *found("README.md")):
        for wheel in re.findall(r"ppodc-([\d.]+)-py3", path.read_text()):
            assert wheel == version()


def ppodc_command() -> click.Command:
    return typer.main.get_command(app)


def ray_command() -> click.Command:
    from ray.scripts.scripts import cli

    return cli


def resolve(command: Any, arguments: list[str]) -> tuple[Any, Any, list[str]]:
    """The command that these words name: (itself, context of its group, arguments left)."""
    context = command.make_context(command.name, list(arguments))
    while True:
        rest = [*context._protected_args, *context.args]
        name, inner, left = context.command.resolve_command(context, rest)
        if not hasattr(inner, "commands"):
            return inner, context, left
        context = inner.make_context(name, left, parent=context)


def parse(command: Any, arguments: list[str]) -> Any:
    """Parse arguments as the program would, down to the command that would run."""
    inner, group, left = resolve(command, arguments)
    return inner.make_context(inner.name, left, parent=group)


def begins_with(program: str, line: str) -> list[list[str]]:
    match = re.search(rf"(?:^|\s|/){program} (?=[a-z-])(.*)", line.partition(" > ")[0])
    if match is None or line.startswith("Description"):
        return []
    return [shlex.split(match[1])]


def commands_to_run(path: Path, program: str) -> list[list[str]]:
    """Commands in the code blocks of a README; they are complete."""
    blocks = re.findall(r"^```(?:sh|ini)\n(.*?)^```", path.read_text(), re.S | re.M)
    lines = "".join(blocks).splitlines()
    return [command for line in lines for command in begins_with(program, line)]


def commands_named(path: Path, program: str) -> list[list[str]]:
    """Commands in the running text, which may lack their arguments."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    found_code = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]
    return [command for code in found_code for command in begins_with(program, code)]


READMES = found("README.md")


@pytest.mark.parametrize("program", ["ppodc", "ray"])
@pytest.mark.parametrize("path", READMES, ids=shown)
def test_every_command_of_the_readmes_is_one(path, program):
    command = ppodc_command() if program == "ppodc" else ray_command()
    for arguments in commands_to_run(path, program):
        parse(command, arguments)
    for arguments in commands_named(path, program):
        left = resolve(command, arguments)[2]
        if left:
            parse(command, arguments)


@pytest.mark.parametrize("path", READMES, ids=shown)
def test_jobs_for_ray_are_commands_too(path):
    """All READMEs with a Ray cluster show one; a Ray job has another working folder."""
    jobs = [c for c in commands_to_run(path, "ray") if c[:2] == ["job", "submit"]]
    assert bool(jobs) == (path.parent in (LAB, FEDERATED / "cloud1"))
    for arguments in jobs:
        entry = list(parse(ray_command(), arguments).params["entrypoint"])
        assert entry[:2] == ["ppodc", "run"]
        assert parse(ppodc_command(), entry[1:]).params["config"].is_absolute()


def test_the_readmes_show_the_commands_of_a_whole_job():
    readme = ONE_MACHINE / "README.md"
    commands = commands_to_run(readme, "ppodc") + commands_named(readme, "ppodc")
    shown_names = {" ".join(a[:2]) if a[0] in (*CLOUDS, "dataset") else a[0] for a in commands}
    whole = {"init", "cloud1 serve", "cloud2 serve", "dataset create", "dataset list", "upload"}
    assert whole | {"run", "status", "resume", "cancel", "result", "ledger"} <= shown_names


def test_links_between_the_readmes_lead_somewhere():
    for path in found("README.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{shown(path)}: {target}"


@pytest.mark.parametrize("path", found("*"), ids=shown)
def test_no_key_is_in_the_samples(path):
    assert path.suffix not in (".secret", ".public", ".pem")
    if path.is_file():
        keys = re.findall(r'public_key = "(.{40})"', path.read_text())
        assert all(key.startswith("REPLACE") for key in keys)
