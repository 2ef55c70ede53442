"""`ppodc bench ldp peers`: diffprivlib and pure-ldp beside `codebook` and noise in the two clouds.

diffprivlib has a trusted curator and pure epsilon; the two clouds have none and delta = 1e-6; with
`codebook` there is one collector who is not trusted. Same records, same epsilon of a record, NICV
in unit ranges as a ratio to k-means without privacy. pure-ldp: the frequency oracle OUE only.
"""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ppodc.bench import document, peer_process, plot
from ppodc.bench.document import Document, Table, grouped
from ppodc.bench.local_dp import options
from ppodc.bench.local_dp.beyond import METHODS, SETS, UB, draw_ratios
from ppodc.bench.local_dp.data import DataFolder, encoded
from ppodc.bench.local_dp.scores import reference_kmeans
from ppodc.bench.points import notices
from ppodc.local_dp.oracles import oracle
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.privacy.weighted_kmeans import mean_squared_distance

METHODS_SHOWN = ("codebook", "two-cloud", "diffprivlib")
_HINT = (
    ". Install diffprivlib==0.6.6, scikit-learn==1.7.2, pure-ldp and statsmodels into an "
    "environment of their own and name its interpreter with --python."
)
ask = partial(peer_process.ask, Path(__file__).with_name("peer.py"), hint=_HINT)
_CELLS, _ORACLE_EPSILON = 256, 1.0


def run(
    data: options.Data = options.FOLDER,
    sets: options.Sets = options.SET_NAMES,
    epsilons: options.Epsilons = options.EPSILONS,
    runs: options.Runs = 6,
    users: Annotated[int, typer.Option(min=1, help="Records of the frequency oracle.")] = 20_000,
    python: Annotated[
        Path | None, typer.Option(help="Interpreter that has diffprivlib and pure-ldp.")
    ] = None,
) -> Document:
    """diffprivlib and pure-ldp, in an environment of their own, beside ours."""
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
        for method in METHODS_SHOWN[:2]
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


def _tables(result: Document) -> list[Table]:
    epsilons, points = result["parameters"]["epsilons"], grouped(result["points"], "what")
    rows = [
        {"name": f"{name}, {method}", **{f"eps{i}": p["ratio"] for i, p in enumerate(own)}}
        for name, of_set in grouped(points["clusters"], "set").items()
        for method, own in grouped(of_set, "method").items()
    ]
    return [
        document.table_of(
            "Clustering beside diffprivlib",
            " | ".join(("NICV / NICV of k-means", *(f"eps {e:g}" for e in epsilons))),
            " | ".join(("{name}", *(f"{{eps{i}:digits}}" for i in range(len(epsilons))))),
            rows,
        ),
        document.table_of(
            "Frequency oracles",
            "256 cells, epsilon 1 | users | CPU | n x mean squared error of a share",
            "{method} | {users:,} | {cpu_s:time} | {n_mse:.3g}",
            points["oracle"],
        ),
    ]


def draw(result: Document, file: plot.File) -> None:
    """Ratio over epsilon, a panel for each set."""
    points = [p for p in result["points"] if p["what"] == "clusters"]
    draw_ratios(points, file, "Clustering under differential privacy, peers")
