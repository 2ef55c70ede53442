"""The lines of docs/howto.md, run as they stand."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from ppodc.local.platform import free_ports
from tests.harness.patience import LONG

ROOT = Path(__file__).parents[2]


def script() -> str:
    """All lines of the page; free ports take the place of the usual ones."""
    page = (ROOT / "docs" / "howto.md").read_text()
    lines = "".join(re.findall(r"```bash\n(.*?)```", page, re.DOTALL))
    options = ("--cloud1-listen", "--cloud2-listen", "--cloud2-listen-control")
    ports = zip(options, free_ports(3), strict=True)
    named = " ".join(f"{option} tcp://127.0.0.1:{port}" for option, port in ports)
    init = "ppodc init deployment --owners 2"
    assert init in lines
    lines = lines.replace(init, f"{init} {named}")
    lines = lines.replace("owner1.answer --replace", "owner1.answer --replace --yes")  # who types y
    return f"set -e\n{lines}echo all done\n"


def test_every_line_works(tmp_path):
    programs, output = tmp_path / "bin", tmp_path / "output"
    programs.mkdir()
    ppodc = programs / "ppodc"
    ppodc.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m ppodc.cli "$@"\n')
    ppodc.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    with output.open("w") as out:
        process = subprocess.Popen(
            ["bash", "-c", script()], cwd=tmp_path, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": path},
        )  # fmt: skip
        try:
            status = process.wait(LONG)
        finally:
            with contextlib.suppress(ProcessLookupError):  # clouds that a failed line has left
                os.killpg(process.pid, signal.SIGKILL)
    said = output.read_text()
    assert status == 0, said
    assert said.endswith("all done\n"), said
