"""`from ppodc import ...`: everything users need, loaded when it is used, and only ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import client
import ppodc

ROOT = Path(ppodc.__file__).parents[1]


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run in a folder of the user's, whose modules come first."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, capture_output=True, text=True, timeout=60,
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


def test_scikit_learn_is_loaded_for_estimators_only(tmp_path):
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
