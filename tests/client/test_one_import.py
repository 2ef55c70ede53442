"""`from ppodc import ...`: everything users need, loaded when it is used, and only ours."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import client
import ppodc
from tests.harness.patience import LONG

ROOT = Path(ppodc.__file__).parents[1]


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run in a folder of the user's, whose modules come first."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, capture_output=True, text=True, timeout=LONG,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.parametrize("name", ppodc.__all__)
def test_every_name_is_there_under_both_packages(name):
    assert getattr(ppodc, name) is getattr(client, name)
    assert getattr(ppodc, name).__name__ in (name, f"ppodc.{name}")
    assert name in dir(ppodc)


def test_an_unknown_name_is_an_attribute_error():
    for package in (ppodc, client):
        with pytest.raises(AttributeError, match="Owners"):
            _ = package.Owners


def test_scikit_learn_is_not_loaded_ahead(tmp_path):
    code = (
        "import sys; from ppodc import Owner, Operator; import ppodc.cli.owners, cloud1.worker;"
        "assert 'sklearn' not in sys.modules"
    )
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_users_module_named_client_is_told_of(tmp_path):
    (tmp_path / "client.py").write_text("raise SystemExit('was run')")
    (tmp_path / "master.py").write_text("raise SystemExit('was run')")
    done = python("from ppodc import Spec; from ppodc import Owner", tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path / 'client.py'} stands where ppodc looks for" in done.stderr


def test_a_type_checker_knows_the_names(tmp_path):
    """The table of places, and the imports that only type checkers see, name the same."""
    shown = {
        alias.asname: node.module if node.module != "ppodc" else f"ppodc.{alias.name}"
        for branch in ast.parse(Path(ppodc.__file__).read_text()).body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        for alias in node.names
    }
    assert shown == ppodc._PLACES
    assert ppodc.__all__ == list(ppodc._PLACES)
    (tmp_path / "user.py").write_text(
        "import ppodc\nfrom ppodc import Owner\nOwner.no_such_method()\nppodc.NoSuchName\n"
        'reveal_type(Owner.connect("owner.toml"))\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml",
         "--cache-dir", ROOT / ".mypy_cache", "user.py"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(ROOT)},
    )  # fmt: skip
    assert 'user.py:3: error: "type[Owner]" has no attribute "no_such_method"' in done.stdout
    assert 'user.py:4: error: Module has no attribute "NoSuchName"' in done.stdout
    assert 'user.py:5: note: Revealed type is "client.owner.Owner"' in done.stdout
