"""A release besides its code: pins with hashes, a citation, versions that agree."""

import re

import yaml

import ppodc
from tests.release.bare import ROOT

PIN = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    found = PIN.findall((ROOT / name).read_text())
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found}


def test_the_image_installs_the_tested_versions_by_hash():
    locked, tested = pins("cluster_configs/cloud.lock"), pins("constraints.txt")
    assert {"ray", "numba", "gmpy2", "pyzmq", "starlette", "hatchling"} <= set(locked)
    assert {name: version for name, version in locked.items() if tested.get(name) != version} == {}
    for entry in re.split(r"\n(?=\S)", (ROOT / "cluster_configs/cloud.lock").read_text().strip()):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry.split(" ")[0]


def test_the_citation_is_of_this_release():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)
    assert cited["version"] == ppodc.__version__
    assert cited["license"] == "Apache-2.0"
