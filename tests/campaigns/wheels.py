"""`python -m tests.campaigns.wheels`: the wheel in a bare environment for each extra.

The wheel is built, and installed into a new virtual environment for each extra. Then a study is run
as the README has it: both clouds from the environment of `cloud`, the operator and one owner from
the base, the other owner from `parquet`, the result drawn with `plot`. The five lines of Python run
in `sklearn`, and `ppodc desk` starts in `desk`. The sizes of all environments are recorded. The
command fails if any step fails.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from ppodc.bench.document import Document, Table, make, table
from ppodc.local.platform import free_ports
from tests.campaigns.outcome import JsonFile, conclude

ROOT = Path(__file__).parents[2]
EXTRAS = ("", "desk", "parquet", "excel", "plot", "sklearn", "cloud", "cluster", "all")
_SECONDS = 1800
# Nothing of this tree; proxies and mirrors of the machine stay.
_OUTSIDE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
_TABLE = "age,temperature,pressure\n" + "".join(
    f"{20 + i % 60},{36 + i % 4},{100 + i % 80}\n" for i in range(60)
)
_PARQUET = """
import csv, pyarrow, pyarrow.parquet
rows = list(csv.DictReader(open("own.csv")))
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(
    [{name: float(cell) for name, cell in row.items()} for row in rows]), "own.parquet")
"""
_PLOT = """
import matplotlib
matplotlib.use("Agg")
from ppodc import Owner
with Owner.connect("deployment/owner1/owner.toml") as owner:
    owner.result("clinic").plot().figure.savefig("clusters.png")
"""
_FIVE_LINES = """
from ppodc import SecureKMeans, ThreadPlatform
from ppodc.local.synthetic import clinics
rows = clinics(80)
model = SecureKMeans(3, bounds=[(0, 110), (60, 220)], platform=ThreadPlatform())
model.fit([rows[:50], rows[50:]])
assert model.sizes_.sum() == 80
"""


class Environments:
    """Virtual environments with the wheel, one for each extra."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheel = self._build()
        self.made: dict[str, dict[str, float]] = {}

    def _build(self) -> Path:
        _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", self.folder], ROOT)
        return next(self.folder.glob("*.whl"))

    def install(self, extra: str) -> None:
        """Make the environment, and note what it holds."""
        home, began = self.folder / f"env-{extra or 'base'}", time.monotonic()
        _run([sys.executable, "-m", "venv", home], self.folder)
        wanted = f"{self.wheel}[{extra}]" if extra else str(self.wheel)
        pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
        before = _bytes(home)
        _run([*pip, "install", "--quiet", "-c", ROOT / "constraints.txt", wanted], self.folder)
        listed = _run([*pip, "list", "--format", "freeze"], self.folder)
        others = {"pip", "setuptools", "ppodc"}
        names = {line.partition("==")[0] for line in listed.splitlines()} - others
        self.made[extra or "base"] = {
            "packages": len(names),
            "megabytes": round((_bytes(home) - before) / 1e6, 1),
            "seconds": round(time.monotonic() - began, 1),
        }

    def program(self, extra: str, name: str) -> Path:
        """A program of the environment of this extra."""
        return self.folder / f"env-{extra or 'base'}" / "bin" / name


def _bytes(home: Path) -> int:
    return sum(file.lstat().st_size for file in home.rglob("*") if not file.is_dir())


def _run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True,
        timeout=_SECONDS, check=False, env=_OUTSIDE,
    )  # fmt: skip
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise RuntimeError(f"{' '.join(map(str, command[:4]))} ... ended with:\n{said}")
    return done.stdout


@contextlib.contextmanager
def _started(command: list[str | Path], folder: Path, sign: str) -> Iterator[None]:
    """A process that has said the sign; it ends with the block."""
    process = subprocess.Popen(
        [str(word) for word in command], cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env={**_OUTSIDE, "HOME": str(folder)},
    )  # fmt: skip
    try:
        said = []
        for line in process.stdout or ():
            said.append(line)
            if sign in line:
                break
        else:
            raise RuntimeError("".join(said))
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)


def study(environments: Environments, folder: Path) -> None:
    """Six commands of the README, by four parties with four installations."""
    light, cloud = environments.program("", "ppodc"), environments.program("cloud", "ppodc")
    first, second, third = free_ports(3)
    (folder / "own.csv").write_text(_TABLE)
    _run([light, "init", "deployment", "--owners", "2",
          "--cloud1-listen", f"tcp://127.0.0.1:{first}",
          "--cloud2-listen", f"tcp://127.0.0.1:{second}",
          "--cloud2-listen-control", f"tcp://127.0.0.1:{third}"], folder)  # fmt: skip
    spec = _run([light, "sample-spec", "--deployment", "deployment"], folder)
    (folder / "spec.toml").write_text(spec)
    files = [folder / "deployment" / f"cloud{n}" / f"cloud{n}.toml" for n in (1, 2)]
    with contextlib.ExitStack() as stack:
        for number, file in enumerate(files, 1):
            serve = [cloud, f"cloud{number}", "serve", "--config", file]
            stack.enter_context(_started(serve, folder, "listens at"))
        operator = folder / "deployment" / "operator" / "operator.toml"
        owners = [folder / "deployment" / f"owner{n}" / "owner.toml" for n in (1, 2)]
        _run([light, "dataset", "create", "spec.toml", "--config", operator], folder)
        upload = ["upload", "clinic", "--spec", "spec.toml"]
        _run([light, *upload, "own.csv", "--config", owners[0]], folder)
        _run([environments.program("parquet", "python"), "-c", _PARQUET], folder)
        columnar = environments.program("parquet", "ppodc")
        _run([columnar, *upload, "own.parquet", "--config", owners[1]], folder)
        _run([cloud, "run", "clinic", "--pairs", "1", "--config", files[0]], folder)
        for owner in owners:
            _run([light, "result", "clinic", "--config", owner], folder)
        _run([environments.program("plot", "python"), "-c", _PLOT], folder)


def desk(environments: Environments, folder: Path) -> None:
    """The desk of somebody who has nothing yet."""
    command = [environments.program("desk", "ppodc"), "desk", "--no-browser"]
    with _started(command, folder, "open this page"):
        pass


def five_lines(environments: Environments, folder: Path) -> None:
    """The five lines of Python in the README."""
    for extra in ("sklearn", "all"):
        if extra in environments.made:
            _run([environments.program(extra, "python"), "-c", _FIVE_LINES], folder)


def cluster(environments: Environments, folder: Path) -> None:
    """Ray's own commands are there."""
    _run([environments.program("cluster", "ray"), "up", "--help"], folder)


_SESSIONS: dict[str, tuple[set[str], Callable[[Environments, Path], None]]] = {
    "a study with two owners": ({"base", "cloud", "parquet", "plot"}, study),
    "the desk": ({"desk"}, desk),
    "five lines of Python": ({"sklearn"}, five_lines),
    "commands of a cluster": ({"cluster"}, cluster),
}


def run(extras: list[str]) -> Document:
    """Install, run the sessions whose environments are there, and record sizes."""
    with tempfile.TemporaryDirectory() as name:
        environments = Environments(Path(name))
        for extra in extras:
            environments.install(extra)
        failed = {}
        ran = []
        for title, (needs, session) in _SESSIONS.items():
            if needs <= set(environments.made):
                folder = Path(name) / session.__name__
                folder.mkdir()
                ran.append(title)
                try:
                    session(environments, folder)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    failed[title] = str(error)
        wheel = environments.wheel
        return make(
            "wheels",
            _tables,
            wheel=wheel.name,
            wheel_bytes=wheel.stat().st_size,
            environments=environments.made,
            sessions=ran,
            failed=failed,
        )


def _tables(document: Document) -> list[Table]:
    sizes = [
        [extra, *(f"{value:g}" for value in made.values())]
        for extra, made in document["environments"].items()
    ]
    sessions = [[title, document["failed"].get(title, "passed")] for title in document["sessions"]]
    return [
        table("Environments", ("extra", "packages", "MB on disk", "s to install"), sizes),
        table("Sessions", ("session", "outcome"), sessions),
    ]


def main(
    extra: Annotated[
        list[str] | None, typer.Option(help="Extras to install; all unless given. base: none.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Install the wheel into bare environments and run documented sessions."""
    chosen = ["" if name == "base" else name for name in extra or EXTRAS]
    document = run(chosen)
    conclude(document, json_file, wrong=bool(document["failed"]))


if __name__ == "__main__":
    typer.run(main)
