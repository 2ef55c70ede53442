"""Where the sample deployments are, and how they are read."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import click
import typer
import yaml

import ppodc
from ppodc.cli import app
from ppodc.service.config import (
    Cloud1Config,
    Cloud2Config,
    CollectorConfig,
    OwnerConfig,
    load,
)

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "cluster_configs"
FEDERATED = CONFIGS / "federated"
LAB = CONFIGS / "lab_cluster"
ONE_MACHINE = CONFIGS / "one_machine"
SINGLE_SERVER = CONFIGS / "single_server"
CLOUDS = ("cloud1", "cloud2")
KINDS = {"cloud1": Cloud1Config, "cloud2": Cloud2Config, "owner": OwnerConfig}
KINDS |= {"operator": OwnerConfig, "collector": CollectorConfig}
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


def version() -> str:
    return ppodc.__version__


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
        if not rest:
            return context.command, context, []
        name, inner, left = context.command.resolve_command(context, rest)
        if not hasattr(inner, "commands"):
            return inner, context, left
        context = inner.make_context(name, left, parent=context)


def parse(command: Any, arguments: list[str]) -> Any:
    """Parse arguments as the program would, down to the command that would run."""
    inner, group, left = resolve(command, arguments)
    return inner.make_context(inner.name, left, parent=group)


@cache
def manifests(cloud: str) -> list[dict[str, Any]]:
    """The manifests that `kubectl apply -k` of this folder reads."""
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


def resources(arguments: list[str]) -> dict[str, float]:
    """The resources of this `ray start`; every option must be one of Ray's."""
    parsed = parse(ray_command(), arguments).params
    return json.loads(parsed["resources"])
