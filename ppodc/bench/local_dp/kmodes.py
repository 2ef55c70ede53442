"""`ppodc bench ldp kmodes`: LDPK-modes beside joint cells: errors of counts, modes on real data.

The published comparison gives LDPK-modes m times the budget of GRR on joint cells; here each row
says what one record really spends. Data and preprocessing: Auto MPG, Car, Nursery as `data`
does it (the published preprocessing is not stated).
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, plot
from ppodc.bench.document import Document, Table, grouped
from ppodc.bench.local_dp.data import DataFolder
from ppodc.bench.local_dp.options import FOLDER, Data, Runs
from ppodc.bench.local_dp.scores import seeded
from ppodc.bench.plot import Panel, Series
from ppodc.local_dp.categories import AttributeResponse, cells_of, values_of
from ppodc.local_dp.frequencies import possible
from ppodc.local_dp.kmodes import WeightedCells, mean_mismatch, nearest_mode, weighted_kmodes
from ppodc.local_dp.oracles import oracle
from ppodc.local_dp.report_streams import insecure_streams

Integers = NDArray[np.int64]

L1 = ((1_000, 0.5), (1_000, 1.0), (10_000, 1.0), (100_000, 2.0))  # n, epsilon
NIVC = (("Auto", 2.0), ("Car", 2.0), ("Nursery", 1.0), ("Nursery", 2.0))
METHODS = ("LDPK-modes, m eps", "LDPK-modes, eps", "GRR joint", "OUE joint")
_CENTRAL = "DP-modes-Lloyd, trusted"
_CLUSTERS = {"Auto": 3, "Car": 4, "Nursery": 5}
_STARTS = 200  # of the best k-modes without privacy


def counts_by(
    method: str, records: Integers, sizes: Sequence[int], epsilon: float, run: int, post: str
) -> NDArray[np.float64]:
    """Estimated records in each joint cell; `epsilon` as the table's row means it."""
    n, streams = len(records), insecure_streams(len(records), run)
    if method.startswith("LDPK-modes"):
        make = AttributeResponse.as_published if "m eps" in method else AttributeResponse.of
        response = make(sizes, epsilon)
        raw = response.estimate(response.count(response.perturb(records, streams)), n)
    else:
        joint = oracle(int(np.prod(sizes)), epsilon, method.split()[0].lower())
        raw = joint.estimate(joint.count(joint.perturb(cells_of(records, sizes), streams)), n)
    return possible(raw, n, post)


def run(
    data: Data = FOLDER,
    runs: Runs = 20,
    iterations: Annotated[
        int, typer.Option(min=1, help="Of k-modes: 5 in Figure 5, 1 in Figure 4.")
    ] = 5,
) -> Document:
    """LDPK-modes beside joint cells: errors of counts, and modes of real data."""
    points = [*_errors(runs), *_modes(DataFolder(data), runs, iterations)]
    return document.make(
        "ldp kmodes",
        _tables,
        parameters={"runs": runs, "iterations": iterations},
        points=points,
        notes=[
            f"Mean of {runs} runs, {iterations} iterations of k-modes. 'm eps': the published "
            "mechanism, epsilon for every attribute, so that one record spends m times as much.",
            "The source claims half of GRR's error for the same epsilon; at the same epsilon of a "
            "record it has more, and at m times the budget not half.",
        ],
    )


def _errors(runs: int) -> list[dict[str, Any]]:
    """L1 error of counts over n, m = 3, k = 2, counts from a rounded Gaussian over 8 cells."""
    points, sizes = [], (2, 2, 2)
    for n, epsilon in L1:
        for method in METHODS:
            errors = []
            for run in range(runs):
                draws = np.random.default_rng(run).normal(3.5, 1.5, n)
                cells = np.clip(np.rint(draws), 0, 7).astype(np.int64)
                records, truth = values_of(cells, sizes), np.bincount(cells, minlength=8)
                found = counts_by(method, records, sizes, epsilon, run, "clip")
                errors.append(float(np.abs(found - truth).sum()) / n)
            points.append({"what": "L1", "n": n, "epsilon": epsilon, "method": method,
                           "value": float(np.mean(errors))})  # fmt: skip
    return points


def _modes(data: DataFolder, runs: int, iterations: int) -> list[dict[str, Any]]:
    points = []
    for name, load in (("Auto", data.auto), ("Car", data.car), ("Nursery", data.nursery)):
        records, k = load().records, _CLUSTERS[name]
        sizes = tuple(int(size) for size in records.max(axis=0) + 1)
        cells = values_of(np.arange(int(np.prod(sizes))), sizes)
        truth = np.bincount(cells_of(records, sizes), minlength=len(cells)).astype(np.float64)
        exact = WeightedCells(cells, truth, sizes)
        best = min(_nivc(records, exact, k, run, 50) for run in range(_STARTS))
        blind = [mean_mismatch(records, cells[seeded(run).permutation(len(cells))[:k]])
                 for run in range(_STARTS)]  # fmt: skip
        for epsilon in [e for set_name, e in NIVC if set_name == name]:
            shape = {"what": "NIVC", "set": name, "epsilon": epsilon}
            for method in METHODS:
                values = []
                for run in range(runs):
                    weights = counts_by(method, records, sizes, epsilon, run, "clip")
                    found = WeightedCells(cells, weights, sizes)
                    values.append(_nivc(records, found, k, run, iterations))
                points.append({**shape, "method": method, "value": float(np.mean(values))})
            central = [
                central_nivc(records, sizes, k, epsilon, run, iterations) for run in range(runs)
            ]
            points.append({**shape, "method": _CENTRAL, "value": float(np.mean(central))})
            points.append({**shape, "method": "random modes", "value": float(np.mean(blind))})
            points.append({**shape, "method": "best k-modes", "value": best})
    return points


def central_nivc(
    records: Integers, sizes: Sequence[int], k: int, epsilon: float, run: int, iterations: int = 5
) -> float:
    """DP-modes-Lloyd, whose curator is trusted with all records.

    Laplace noise of scale m T / epsilon on the counts of every cluster, attribute and value in each
    of T iterations: a record stands in m of these counts.
    """
    generator = np.random.default_rng(run)
    scale = records.shape[1] * iterations / epsilon
    modes = np.stack([generator.integers(0, size, k) for size in sizes], axis=1)
    for _ in range(iterations):
        labels = nearest_mode(records, modes)
        for j, size in enumerate(sizes):
            counts = np.bincount(labels * size + records[:, j], minlength=k * size)
            noisy = counts + generator.laplace(0.0, scale, k * size)
            modes[:, j] = noisy.reshape(k, size).argmax(axis=1)
    return mean_mismatch(records, modes)


def _nivc(records: Integers, cells: WeightedCells, k: int, run: int, max_iter: int) -> float:
    found = weighted_kmodes(cells, k, max_iter=max_iter, random=seeded(run))
    return mean_mismatch(records, found.modes)


def _tables(result: Document) -> list[Table]:
    points = grouped(result["points"], "what")
    rows = []
    for n, epsilon in L1:
        own = [p["value"] for p in points["L1"] if (p["n"], p["epsilon"]) == (n, epsilon)]
        rows.append([f"{n:,}, eps {epsilon:g}", *(f"{value:.3g}" for value in own)])
    title = "L1 error of counts / n, 3 attributes of 2 values"
    tables = [document.table(title, ["n", *METHODS], rows)]
    rows = []
    for name, epsilon in NIVC:
        own = [p["value"] for p in points["NIVC"] if (p["set"], p["epsilon"]) == (name, epsilon)]
        rows.append([f"{name}, eps {epsilon:g}", *(f"{value:.3g}" for value in own)])
    columns = ["data", *METHODS, _CENTRAL, "random modes", "best k-modes"]
    return [*tables, document.table("Mean Hamming distance to the nearest mode", columns, rows)]


def draw(result: Document, file: plot.File) -> None:
    """The errors of counts, a line a method, over the rows of the table."""
    rows = list(L1)
    series = [
        Series(method, range(len(rows)), [p["value"] for p in own])
        for method, own in grouped(grouped(result["points"], "what")["L1"], "method").items()
    ]
    label = "; ".join(f"{i}: n = {n:,}, eps {e:g}" for i, (n, e) in enumerate(rows))
    plot.lines(file, [Panel("", label, "L1 error / n", series)], "Counts of joint cells", log="y")
