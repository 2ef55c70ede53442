"""Commands of `ppodc bench` are loaded when they are called, and each has its options."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.cli.bench import FAMILIES, LOCAL_DP
from ppodc.errors import MissingExtraError
from ppodc.extras import named_if_missing

COMMANDS = [[name] for family in FAMILIES.values() for name in family]
COMMANDS += [["ldp", name] for name in LOCAL_DP]
LOADED = """
import sys
from ppodc.cli import app
try:
    app({words})
except SystemExit:
    print(*sys.modules)
"""


@pytest.mark.parametrize("words", [["--help"], ["bench", "--help"], ["bench", "ldp", "--help"]])
def test_help_loads_no_measurement(words):
    code = LOADED.format(words=words)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "ppodc.cli.bench" in loaded
    heavy = ("ppodc.bench", "ppodc.mpc", "numba", "gmpy2", "ray", "sklearn", "matplotlib")
    assert not [name for name in loaded if name.startswith(heavy)]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help(words):
    done = CliRunner().invoke(app, ["bench", *words, "--help"])
    assert done.exit_code == 0, done.output
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.output)
    assert "--json" in shown
    assert "[OPTIONS]" in shown


def test_without_psutil_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    for name in [name for name in sys.modules if name.startswith("ppodc.bench")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtraError, match=r"ppodc\[bench\]"), named_if_missing():
        CliRunner().invoke(app, ["bench", "ldp", "speed"], catch_exceptions=False)
