"""The wheel: whose code and data it holds, and what its metadata promises."""

import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser

import pytest

import ppodc
from tests.harness.patience import LONG
from tests.release.bare import ROOT

pytest.importorskip("hatchling", reason="hatchling is missing: make install brings it")
PARTIES = ("client", "cloud1", "cloud2", "master", "ppodc")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT, capture_output=True, text=True, timeout=LONG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def metadata(wheel):
    name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_it_holds_the_code_and_data_of_every_party_and_nothing_else(wheel):
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = {
        str(file.relative_to(ROOT))
        for party in PARTIES
        for file in (ROOT / party).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert inside == wanted
    assert {"ppodc/py.typed", "client/py.typed"} <= inside
    assert not [name for name in wheel.namelist() if name.endswith((".secret", ".sqlite"))]


def test_its_metadata_names_every_extra(metadata):
    assert (metadata["Name"], metadata["Version"]) == ("ppodc", ppodc.__version__)
    extras = PROJECT["optional-dependencies"]
    assert set(metadata.get_all("Provides-Extra")) == set(extras)
    required = metadata.get_all("Requires-Dist")
    base = {line.partition(">")[0] for line in required if "extra ==" not in line}
    assert base == {line.partition(">")[0] for line in PROJECT["dependencies"]}


def test_it_names_its_licence_its_command_and_its_pythons(wheel, metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
    entry = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "ppodc = ppodc.cli:main" in wheel.read(entry).decode()
    said = set(metadata.get_all("Classifier"))
    assert {f"Programming Language :: Python :: 3.{n}" for n in (11, 12, 13)} <= said
    assert metadata["Requires-Python"] == ">=3.11"
