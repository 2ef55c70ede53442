"""The commands of the first study and of the how-to pages, run as they stand."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ppodc.local.platform import free_ports
from tests.harness.patience import LONG

ROOT = Path(__file__).parents[2]
SESSIONS = {
    "a study": ("first_study", "python"),
    "tasks": ("owners", "operators", "clouds"),
}
STEP = re.compile(r"<!-- run (\d+) -->\n```(bash|python)\n(.*?)```", re.DOTALL)


def steps(page: str) -> dict[int, str]:
    """The numbered blocks of a page, as lines of a shell."""
    found = {}
    for number, language, block in STEP.findall((ROOT / "docs" / f"{page}.md").read_text()):
        found[int(number)] = (
            f"cat >> all.py <<'END'\n{block}END\n" if language == "python" else block
        )
    return found


def script(pages: tuple[str, ...]) -> str:
    """All blocks in the order of their numbers; free ports take the place of the usual ones."""
    numbered = [step for page in pages for step in steps(page).items()]
    numbers = sorted(number for number, _ in numbered)
    assert numbers == list(range(1, len(numbered) + 1)), "a number is missing or there twice"
    lines = "".join(block for _, block in sorted(numbered))
    options = ("--cloud1-listen", "--cloud2-listen", "--cloud2-listen-control")
    ports = zip(options, free_ports(3), strict=True)
    named = " ".join(f"{option} tcp://127.0.0.1:{port}" for option, port in ports)
    init = "ppodc init deployment --owners 2"
    assert init in lines
    lines = lines.replace(init, f"{init} {named}")
    lines = lines.replace("owner1.answer --replace", "owner1.answer --replace --yes")  # who types y
    return f"set -e\ntouch all.py\n{lines}python all.py\necho all done\n"


@pytest.mark.parametrize("session", SESSIONS)
def test_every_line_works(session: str, tmp_path: Path):
    programs, output = tmp_path / "bin", tmp_path / "output"
    programs.mkdir()
    for name, arguments in (("ppodc", "-P -m ppodc.cli"), ("python", "-P")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        program.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    with output.open("w") as out:
        process = subprocess.Popen(
            ["bash", "-c", script(SESSIONS[session])], cwd=tmp_path, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": path},
        )  # fmt: skip
        try:
            status = process.wait(6 * LONG)  # some thirty programs, one after the other
        finally:
            with contextlib.suppress(ProcessLookupError):  # clouds that a line has left
                os.killpg(process.pid, signal.SIGKILL)
    said = output.read_text()
    assert status == 0, said
    assert said.endswith("all done\n"), said


def test_the_readme_has_lines_of_the_first_study():
    """So each of its lines is run; its comments say who types it."""
    (block,) = re.findall(r"## A study.*?```bash\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    run = {line for _, text in steps("first_study").items() for line in text.splitlines()}
    lines = [line.partition("  #")[0].rstrip() for line in block.splitlines()]
    assert len(lines) > 5
    assert set(lines) <= run
