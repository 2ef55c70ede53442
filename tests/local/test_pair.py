"""`ppodc run-pair` as a user meets it: two real processes, wrong input, killed clouds, Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.harness.patience import LONG, wait_for

SPEC = """
name = "small"
[schema]
ub = 100
columns = [{ name = "x", low = 0, high = 10 }, { name = "y", low = -5, high = 5 }]
[job]
k = 2
beta = 0
max_iter = 6
seed = 3
labels = true
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    g = np.random.default_rng(2)
    rows = np.vstack([g.normal((2, -2), 0.5, (5, 2)), g.normal((8, 3), 0.5, (5, 2))])
    lines = [f"{x:.3f},{y:.3f}" for x, y in np.clip(rows, (0, -5), (10, 5))]
    (tmp_path / "data.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def command(table: Path, *options: str) -> list[str]:
    data, spec = str(table / "data.csv"), str(table / "spec.toml")
    keys = ["--key-bits", "512", "--insecure-key"]
    return [sys.executable, "-m", "ppodc.cli", "run-pair", data, "--spec", spec, *keys, *options]


def run(table: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(table, *options), capture_output=True, text=True, timeout=LONG)


@pytest.mark.parametrize(
    ("suite", "mode"),
    [
        ("paillier", "online+offline"),
        ("paillier", "online"),
        ("shares", "online+offline"),
        ("shares", "online"),
    ],
)
def test_centres_equal_plaintext_in_every_mode(table, suite, mode):
    done = run(table, "--suite", suite, "--mode", mode)
    assert done.returncode == 0, done.stderr
    assert "identical: yes" in done.stdout


def test_the_folders_hold_only_what_each_cloud_may_know(table):
    pipelined = ["--suite", "paillier", "--mode", "pipelined"]
    done = run(table, *pipelined, "--folder", str(table / "kept"))
    assert done.returncode == 0, done.stderr
    assert "identical: yes" in done.stdout
    first, second = table / "kept" / "cloud1", table / "kept" / "cloud2"
    assert not (first / "paillier.key").exists()
    assert not (first / "seeds.json").exists()
    assert not list(second.glob("share-*"))
    for secret in (first / "curve.secret", second / "curve.secret", second / "paillier.key"):
        assert secret.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: (t / "data.csv").unlink(), "data.csv"),
        (lambda t: (t / "spec.toml").write_text("name = 3"), "missing schema"),
        (lambda t: (t / "data.csv").write_text("x,y\n1,2\n3,nine\n"), "line 3"),
        (lambda t: (t / "data.csv").write_text("x,y\n1,2\n300,1\n"), "x"),
        (lambda t: (t / "data.csv").write_text("y,z\n1,2\n3,1\n"), "missing columns 'x'"),
        (lambda t: (t / "data.csv").write_text("x,y\n1,2\n"), "at least 2"),
        (lambda t: (t / "spec.toml").write_text(SPEC.replace("k = 2", "k = 60")), "60"),
    ],
)
def test_wrong_input_is_one_clear_line(table, change, said):
    change(table)
    done = run(table)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_names_with_brackets_and_folders_in_use_are_told_as_they_are(table):
    brackets = [w.replace("data.csv", "no[/b]such.csv") for w in command(table)]
    done = subprocess.run(brackets, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 2
    assert "no[/b]such.csv" in done.stderr
    used = run(table, "--folder", str(table))
    assert used.returncode == 2
    assert "is not empty" in used.stderr
    assert "Traceback" not in done.stderr + used.stderr


def test_a_small_key_must_be_asked_for_by_name(table):
    words = [w for w in command(table) if w != "--insecure-key"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 2
    assert "2048" in done.stderr
    assert "Traceback" not in done.stderr


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


def cloud(pid: int, role: int) -> int | None:
    for child in children(pid):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(word.endswith(f"cloud{role}") for word in words):
            return child
    return None


def without_end(folder: Path) -> None:
    """A job that is far from its end after its first iteration, however busy the machine is."""
    (folder / "spec.toml").write_text(SPEC.replace("beta = 0\nmax_iter = 6", "iterations = 10_000"))


def started_iterating(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until C1 has taken the records in and works on an iteration."""
    assert process.stdout is not None
    for line in process.stdout:
        if "iteration 1" in line:
            return
    pytest.fail("the run ended before its first iteration")


@pytest.mark.parametrize("role", [1, 2])
def test_a_killed_cloud_is_a_clear_error_and_nothing_is_left_running(table, role):
    without_end(table)
    with subprocess.Popen(
        command(table, "--folder", str(table / "kept")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        started_iterating(table, process)
        victim = cloud(process.pid, role)
        other = cloud(process.pid, 3 - role)
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        _, said = process.communicate(timeout=LONG)
    assert process.returncode not in (0, None)
    assert f"cloud{role} stopped" in said
    assert "Traceback" not in said
    log = (table / "kept" / f"cloud{3 - role}" / "log.txt").read_text()
    assert "Traceback" not in log
    assert other is None or not Path(f"/proc/{other}").exists()


def test_ctrl_c_ends_everything(table):
    without_end(table)
    process = subprocess.Popen(
        command(table), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    with process:
        started_iterating(table, process)
        clouds = [cloud(process.pid, role) for role in (1, 2)]
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=LONG)
    assert process.returncode == 130
    assert "Traceback" not in said
    wait_for(lambda: not any(c and Path(f"/proc/{c}").exists() for c in clouds))
