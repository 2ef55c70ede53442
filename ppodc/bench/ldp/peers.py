"""`ppodc bench ldp peers`: diffprivlib and pure-ldp beside `codebook` and noise in the two clouds.

diffprivlib has a trusted curator and pure epsilon; the two clouds have none and delta = 1e-6; with
`codebook` there is one collector who is not trusted. Same records, same epsilon of a record, NICV
in unit ranges as a ratio to k-means without privacy. pure-ldp: the frequency oracle OUE only.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ppodc.bench import document, plot
from ppodc.bench.document import Document, Table
from ppodc.bench.ldp.beyond import METHODS, SETS, UB
from ppodc.bench.ldp.data import DataFolder, encoded
from ppodc.bench.ldp.scores import reference_kmeans
from ppodc.bench.plot import Panel, Series
from ppodc.bench.points import notices
from ppodc.errors import InputError
from ppodc.ldp.oracles import oracle
from ppodc.ldp.report_streams import insecure_streams
from ppodc.ldp.weighted_kmeans import mean_squared_distance

_OURS = ("codebook", "two-cloud")
_CELLS, _ORACLE_EPSILON = 256, 1.0


def run(
    *,
    data: Path,
    sets: Sequence[str],
    epsilons: Sequence[float],
    runs: int,
    users: int,
    python: Path | None,
) -> Document:
    """Clustering on every set, and one oracle over `users` records."""
    points = []
    for name in sets:
        load, k = SETS[name]
        records = load(DataFolder(data))
        reference = reference_kmeans(records, k)
        for epsilon in epsilons:
            notices.print(f"{name}: epsilon {epsilon:g}", markup=False)
            ratios = _ratios(records, k, epsilon, runs, python)
            points += [
                {"what": "clusters", "set": name, "epsilon": epsilon, "method": method,
                 "ratio": value / reference}
                for method, value in ratios.items()
            ]  # fmt: skip
    points += _oracles(users, python)
    return document.make(
        "ldp peers",
        _tables,
        parameters={"sets": list(sets), "epsilons": list(epsilons), "runs": runs, "users": users},
        points=points,
        notes=[
            "diffprivlib: a trusted curator, delta = 0, neighbours by one record added; two-cloud: "
            "nobody is trusted, delta = 1e-6, one record replaced. Not the same model of trust.",
            f"Mean of {runs} runs; each peer in the interpreter given with --python.",
        ],
    )


def _ratios(
    records: Any, k: int, epsilon: float, runs: int, python: Path | None
) -> dict[str, float]:
    whole = encoded(records, UB)
    found = {
        method: float(np.mean([
            mean_squared_distance(records, METHODS[method](whole, k, epsilon, run) / UB)
            for run in range(runs)
        ]))
        for method in _OURS
    }  # fmt: skip
    values = []
    for number in range(runs):
        task = {"peer": "diffprivlib", "records": records.tolist(), "k": k, "epsilon": epsilon,
                "run": number}  # fmt: skip
        centres = np.array(ask(task, python)["centres"])
        values.append(mean_squared_distance(records, centres))
    return {**found, "diffprivlib": float(np.mean(values))}


def _oracles(users: int, python: Path | None) -> list[dict[str, Any]]:
    cells = np.random.default_rng(3).integers(0, _CELLS, users)
    truth = np.bincount(cells, minlength=_CELLS)
    made = oracle(_CELLS, _ORACLE_EPSILON, "oue")
    started = time.process_time()
    estimates = made.estimate(made.count(made.perturb(cells, insecure_streams(users, 1))), users)
    points = [_oracle_point("ppodc OUE", time.process_time() - started, estimates, truth, users)]
    task = {"peer": "pure-ldp", "records": cells.tolist(), "k": _CELLS, "epsilon": _ORACLE_EPSILON}
    answer = ask(task, python)
    estimates = np.array(answer["estimates"])
    return [*points, _oracle_point("pure-ldp OUE", answer["cpu_s"], estimates, truth, users)]


def _oracle_point(
    name: str, cpu_s: float, estimates: Any, truth: Any, users: int
) -> dict[str, Any]:
    error = users * float((((estimates - truth) / users) ** 2).mean())
    return {"what": "oracle", "method": name, "cpu_s": cpu_s, "n_mse": error, "users": users}


def ask(task: dict[str, Any], python: Path | None) -> dict[str, Any]:
    """What the peer answers; InputError if it cannot be run."""
    script = Path(__file__).with_name("peer.py")
    command = [str(python or sys.executable), "-I", "-W", "ignore", str(script)]
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True,
                          check=False)  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(
            f"{task['peer']} could not be run: {last}. Install diffprivlib==0.6.6, "
            "scikit-learn==1.7.2, pure-ldp and statsmodels into an environment of their own and "
            "name its interpreter with --python."
        )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _tables(result: Document) -> list[Table]:
    methods, epsilons = (*_OURS, "diffprivlib"), result["parameters"]["epsilons"]
    rows = []
    for name in result["parameters"]["sets"]:
        for method in methods:
            own = {
                p["epsilon"]: p["ratio"]
                for p in result["points"]
                if p["what"] == "clusters" and p["set"] == name and p["method"] == method
            }
            rows.append([f"{name}, {method}", *(document.digits(own[e]) for e in epsilons)])
    columns = ["NICV / NICV of k-means", *(f"eps {e:g}" for e in epsilons)]
    tables = [document.table("Clustering beside diffprivlib", columns, rows)]
    rows = [
        [p["method"], f"{p['users']:,}", document.seconds(p["cpu_s"]), f"{p['n_mse']:.3g}"]
        for p in result["points"]
        if p["what"] == "oracle"
    ]
    columns = ["256 cells, epsilon 1", "users", "CPU", "n x mean squared error of a share"]
    return [*tables, document.table("Frequency oracles", columns, rows)]


def draw(result: Document, file: plot.File) -> None:
    """Ratio over epsilon, a panel for each set."""
    panels = []
    for name in result["parameters"]["sets"]:
        series = []
        for method in (*_OURS, "diffprivlib"):
            own = [p for p in result["points"] if p["what"] == "clusters" and p["set"] == name
                   and p["method"] == method]  # fmt: skip
            series.append(Series(method, [p["epsilon"] for p in own], [p["ratio"] for p in own]))
        panels.append(Panel(name, "epsilon of one record", "NICV / NICV of k-means", series))
    plot.lines(file, panels, "Clustering under differential privacy, peers", log="xy")
