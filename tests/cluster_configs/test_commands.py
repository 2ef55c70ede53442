"""The image is made from files that exist, and every command the samples name is one."""

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.cluster_configs.samples import (
    CONFIGS,
    FEDERATED,
    LAB,
    RAY_UPS,
    ROOT,
    found,
    parse,
    pods,
    ppodc_command,
    ray_command,
    resolve,
    shown,
    version,
)


def test_the_image_is_made_from_files_that_exist():
    text = (CONFIGS / "Dockerfile").read_text()
    sources = [
        name
        for line in re.findall(r"^COPY (.+)$", text, re.M)
        for name in line.split()[:-1]
        if not name.startswith("--")
    ]
    assert {"cluster_configs/cloud.lock", "ppodc", "cloud1", "cloud2", "master", "client"} <= set(
        sources
    )
    ignore = (CONFIGS / "Dockerfile.dockerignore").read_text().splitlines()
    for name in sources:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignore
    assert "--require-hashes -r /src/cloud.lock" in text
    assert "--no-deps --no-build-isolation /src" in text
    script = ROOT / next(name for name in sources if name.endswith(".sh"))
    assert script.name in pods("cloud2")["gateway"]["spec"]["containers"][0]["args"]
    assert os.access(script, os.X_OK)


def test_versions_agree():
    for path in (*RAY_UPS, *found("README.md")):
        for wheel in re.findall(r"ppodc-([\d.]+)-py3", path.read_text()):
            assert wheel == version()


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
