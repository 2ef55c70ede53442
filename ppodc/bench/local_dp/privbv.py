"""`ppodc bench ldp privbv`: PrivBV and DPBV as published, corrected, and what they give away.

Table 3 (digits), the figures on distance errors, shapes and record linkage, which exist as pictures
only, and the attack: maximum likelihood finds a value from its own bits, since the places of the
thresholds are public. All settings as printed: range 50, s = 1000 bits a value.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, plot
from ppodc.bench.document import Document, Table
from ppodc.bench.local_dp.data import DataFolder, Labelled, encoded
from ppodc.bench.local_dp.distances import (
    BITS,
    COLUMNS,
    DRAWS,
    UNITS,
    VERTICAL,
    distance_errors,
    springboard_errors,
    vertical_errors,
)
from ppodc.bench.local_dp.options import EPSILONS, FOLDER, Data, epsilons
from ppodc.bench.local_dp.scores import ari, nmi, seeded
from ppodc.bench.plot import Panel, Series
from ppodc.bench.points import notices
from ppodc.local_dp.published.bit_estimates import DistanceScale, attribute_bits
from ppodc.local_dp.published.bit_reports import BitReports, privbv_as_published
from ppodc.local_dp.published.distances import distance_matrix
from ppodc.local_dp.published.kcluster import dbscan, kcluster_matrix
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.privacy.weighted_kmeans import squared_distances, weighted_kmeans

RANGE = 50
UB = RANGE * UNITS
PUBLISHED = {
    "k-means": 0.7432,
    "kCluster, exact": 0.7465,
    "b = 1": 0.7089,
    "b = 2": 0.7357,
    "ADP, sigma 2": 0.7272,
    "ADP, sigma 4": 0.6258,
    "RSP, 75%": 0.6708,
    "RSP, 50%": 0.6365,
}
_SHAPES = {"aggregation": (3.0, 12, 7), "pathbased": (4.0, 12, 3), "two moons": (4.0, 3, 2)}
_DRAWN = ("DBSCAN, exact", "DBSCAN, b = 4", "kCluster, b = 1")
Matrix = NDArray[np.float32]


def run(
    data: Data = FOLDER,
    starts: Annotated[int, typer.Option(min=1, help="Random starts of a clustering.")] = 10,
    epsilons: Annotated[
        Sequence[float],
        typer.Option(parser=epsilons, metavar="LIST", help="b: epsilons of one bit, as published."),
    ] = EPSILONS,
) -> Document:
    """PrivBV and DPBV: digits beside Table 3, distances, shapes, linkage, and the attack."""
    folder = DataFolder(data)
    points = [
        *_digits(folder.digits(), starts, epsilons),
        *distance_errors(),
        *springboard_errors(),
        *vertical_errors(),
        *_shapes(folder),
        *_linkage(),
        *_attack(),
        *_lengths(),
    ]
    guarantee = privbv_as_published(
        64, UB, b=1.0, bits=BITS, t=UB // 2, random=seeded(0)
    ).guarantee()
    return document.make(
        "ldp privbv",
        _tables,
        parameters={"starts": starts, "epsilons": list(epsilons), "bits": BITS, "range": RANGE},
        points=points,
        published=PUBLISHED,
        notes=[
            f"b = 1 on digits: {guarantee}",
            "ADP adds Gaussian noise to every value (range 50), RSP projects records to fewer "
            "dimensions; neither has a stated privacy. Figures of the sources exist as pictures "
            "only: no published number stands beside them.",
            "Single draws of adjusted distances and of DBSCAN on flipped bits scatter widely: "
            "these are the median and the mean of ten. DBSCAN at b = 1 is chance.",
            "The sources find the vertical form better in many dimensions; with as many bits it is "
            "worse in all of these, and each pair of records spends anew.",
        ],
    )


# ------------------------------------------------------------------- digits (Table 3)


def _digits(digits: Labelled, starts: int, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    records = encoded(digits.records, UB)
    units = records / UNITS
    points = [_kmeans_point("k-means", units, digits.labels, starts)]
    for sigma in (2, 4):
        noisy = units + np.random.default_rng(sigma).normal(0, sigma, units.shape)
        points.append(_kmeans_point(f"ADP, sigma {sigma}", noisy, digits.labels, starts))
    for part in (0.75, 0.5):
        kept = int(part * units.shape[1])
        signs = np.random.default_rng(kept).choice((-1.0, 1.0), (units.shape[1], kept))
        name = f"RSP, {part:.0%}"
        points.append(_kmeans_point(name, units @ signs / kept**0.5, digits.labels, starts))
    exact = np.sqrt(squared_distances(units, units)).astype(np.float32)
    points.append(_clustered("kCluster, exact", exact, 10, digits.labels, starts))
    for b in epsilons:
        notices.print(f"digits: b = {b:g}", markup=False)
        mechanism = privbv_as_published(64, UB, b=b, bits=BITS, t=UB // 2, random=seeded(1))
        reports = mechanism.perturb(records, insecure_streams(len(records), 1))
        scale = DistanceScale.of(mechanism.flips, BITS, RANGE, RANGE / 2)
        for name, options in (
            (f"b = {b:g}", {"self_zero": False}),
            (f"b = {b:g}, own distance 0", {}),
            (f"b = {b:g}, debiased", {"debias": True}),
        ):
            matrix = distance_matrix(reports, 64, scale, **options)
            points.append({**_clustered(name, matrix, 10, digits.labels, starts), "b": b})
    return points


def _kmeans_point(
    name: str, units: NDArray[np.float64], labels: Any, starts: int
) -> dict[str, Any]:
    scores = []
    for start in range(starts):
        centres, _ = weighted_kmeans(units, np.ones(len(units)), 10, random=seeded(start), starts=1)
        squares = squared_distances(units, centres)
        found = nmi(squares.argmin(axis=1), labels)
        scores.append((float(squares.min(axis=1).sum()), found, 0))
    return {**_scored(name, scores), "iterations": None}  # not counted


def _clustered(
    name: str, matrix: Matrix, k: int, labels: NDArray[np.int64], starts: int
) -> dict[str, Any]:
    scores = []
    for start in range(starts):
        found = kcluster_matrix(matrix, k, max_iter=100, random=seeded(start, 7))
        scores.append((found.objective, nmi(found.labels, labels), found.n_iter))
    return _scored(name, scores)


def _scored(name: str, scores: list[tuple[float, float, int]]) -> dict[str, Any]:
    return {
        "what": "digits",
        "name": name,
        "mean": float(np.mean([score[1] for score in scores])),
        "best": min(scores)[1],
        "iterations": float(np.mean([score[2] for score in scores])),
    }


# ------------------------------------------------------------------- shapes, linkage, attack


def _shapes(folder: DataFolder) -> list[dict[str, Any]]:
    sets = {
        "aggregation": folder.sipu("aggregation"),
        "pathbased": folder.sipu("pathbased"),
        "two moons": folder.two_moons(),
    }
    points = []
    for name, labelled in sets.items():
        radius, least, k = _SHAPES[name]
        records = encoded(labelled.records, UB)
        units = records / UNITS
        exact = np.sqrt(squared_distances(units, units)).astype(np.float32)
        pictures: dict[str, NDArray[np.int64]] = {}
        matrices = {"exact": [exact], "plain": [_bit_matrix(records, 0)]}
        for b in (4, 2, 1):
            matrices[f"b = {b}"] = [_bit_matrix(records, b, draw) for draw in range(DRAWS)]
        for kind, several in matrices.items():
            scores = [ari(dbscan(matrix, radius, least), labelled.labels) for matrix in several]
            clustered = _clustered(kind, several[0], k, labelled.labels, 10)
            pictures[f"{name}, DBSCAN, {kind}"] = dbscan(several[0], radius, least)
            pictures[f"{name}, kCluster, {kind}"] = kcluster_matrix(
                several[0], k, max_iter=100, random=seeded(0, 7)
            ).labels
            points.append(
                {
                    "what": "shapes",
                    "set": name,
                    "name": kind,
                    "ari": float(np.mean(scores)),
                    "ari_range": [min(scores), max(scores)],
                    "kcluster_nmi": clustered["best"],
                }
            )
        places = np.round(units.T, 2).tolist()
        points += [
            {"what": "picture", "name": title, "places": places, "labels": labels.tolist()}
            for title, labels in pictures.items()
            if title.endswith(_DRAWN)
        ]
    return points


def _bit_matrix(records: NDArray[np.int64], b: float, draw: int = 0) -> Matrix:
    """Distances from plain (b = 0) or flipped bit vectors, as published but for the diagonal."""
    columns = records.shape[1]
    mechanism = privbv_as_published(
        columns, UB, b=b or 1.0, bits=BITS, t=UB // 2, random=seeded(2, draw)
    )
    if not b:
        plain = DistanceScale.of(None, BITS, RANGE, RANGE / 2)
        return distance_matrix(mechanism.encode(records), columns, plain)
    reports = mechanism.perturb(records, insecure_streams(len(records), 2 + draw))
    scale = DistanceScale.of(mechanism.flips, BITS, RANGE, RANGE / 2)
    return distance_matrix(reports, columns, scale)


def _linkage() -> list[dict[str, Any]]:
    """4 attributes, noise 0.3, 150 matches of 300 x 300: the best F1 over thresholds."""
    generator = np.random.default_rng(7)
    first = generator.uniform(0, RANGE, (300, 4))
    second = generator.uniform(0, RANGE, (300, 4))
    second[:150] = np.clip(first[:150] + generator.normal(0, 0.3, (150, 4)), 0, RANGE)
    records = np.rint(np.concatenate([first, second]) * UNITS).astype(np.int64)
    truth = np.zeros((300, 300), bool)
    truth[np.arange(150), np.arange(150)] = True
    points = []
    for b in (0, 4, 2, 1):
        matrix = _bit_matrix(records, b)[:300, 300:]
        order = np.argsort(matrix, axis=None)
        hits = np.cumsum(truth.ravel()[order])
        chosen = np.arange(1, len(order) + 1)
        f1 = float((2 * hits / (chosen + 150)).max())
        points.append({"what": "linkage", "name": f"b = {b:g}" if b else "plain", "f1": f1})
    return points


def _attack() -> list[dict[str, Any]]:
    """Errors of a value that is guessed from its flipped bits, in parts of the range.

    Maximum likelihood and the part of the range that holds 95 % of the posterior (Figure 11) need
    the public thresholds alone. The collusion that the source describes needs no thresholds: it
    compares the report with those of 50 values that attackers know.
    """
    points = []
    for b in (1.0, 2.0):
        mechanism = privbv_as_published(1, UB, b=b, bits=BITS, t=UB // 2, random=seeded(3))
        records = (insecure_streams(2000, 8).words(1) % (UB + 1)).astype(np.int64)
        bits = attribute_bits(
            mechanism.perturb(records, insecure_streams(2000, 9)), mechanism
        )[:, 0].astype(np.float32)  # fmt: skip
        table = mechanism.code.table.astype(np.float32)
        agreement = (2 * bits - 1) @ (2 * table - 1).T
        edges = np.concatenate([[0], mechanism.code.breaks, [UB + 1]])
        guess = ((edges[:-1] + edges[1:] - 1) / 2)[agreement.argmax(axis=1)]
        error = np.abs(guess - records[:, 0]) / UB
        collusion = np.abs(_collusion(mechanism, records, bits) - records[:, 0]) / UB
        points.append({"what": "attack", "b": b, "median": float(np.median(error)),
                       "p95": float(np.quantile(error, 0.95)),
                       "posterior": _posterior(agreement * b / 2, np.diff(edges)),
                       "collusion": float(np.median(collusion))})  # fmt: skip
    return points


def _posterior(logs: NDArray[np.float64], widths: NDArray[np.int64]) -> float:
    """Mean part of the range that holds 95 % of the posterior of a uniform value."""
    mass = np.exp(logs - logs.max(axis=1, keepdims=True)) * widths
    mass /= mass.sum(axis=1, keepdims=True)
    order = np.argsort(-logs, axis=1)
    held = np.cumsum(np.take_along_axis(mass, order, axis=1), axis=1)
    before = np.concatenate([np.zeros((len(held), 1)), held[:, :-1]], axis=1)
    return float((widths[order] * (before < 0.95)).sum(axis=1).mean() / (UB + 1))


def _collusion(
    mechanism: BitReports, records: NDArray[np.int64], bits: NDArray[np.float32]
) -> NDArray[np.float64]:
    """The value whose distances to 50 known values fit the estimated ones best."""
    known = np.linspace(0, UB, 50).astype(np.int64)[:, None]
    theirs = attribute_bits(mechanism.perturb(known, insecure_streams(50, 10)), mechanism)[:, 0]
    hamming = bits.sum(axis=1)[:, None] + theirs.sum(axis=1) - 2 * bits @ theirs.T.astype(float)
    found = DistanceScale.of(mechanism.flips, BITS, UB, UB // 2).distances(hamming)
    grid = np.arange(0, UB + 1, 5)
    exact = np.abs(grid[:, None] - known[:, 0])
    misfit = (exact**2).sum(axis=1) - 2 * found @ exact.T
    return np.asarray(grid[misfit.argmin(axis=1)], np.float64)


def _lengths() -> list[dict[str, Any]]:
    """Figure 9: bits for the source's delta, and what a value with as many bits really spends."""
    return [
        {"what": "length", "b": b, "delta": delta, "s": s, "spent": b * s}
        for b in (0.5, 1.0, 2.0, 4.0)
        for delta in (1e-3, 1e-6, 1e-9)
        for s in (math.ceil(math.log(delta) / (b - math.log1p(math.exp(b)))),)
    ]


# ------------------------------------------------------------------- tables and plot


def _tables(result: Document) -> list[Table]:
    by_what: dict[str, list[dict[str, Any]]] = {}
    for point in result["points"]:
        by_what.setdefault(point["what"], []).append(point)
    rows = [{**p, "stated": PUBLISHED.get(p["name"])} for p in by_what["digits"]]
    tables = [
        document.table_of(
            "Table 3: digits, 10 clusters",
            "digits, NMI | mean | best objective | iterations | published",
            "{name} | {mean:.3f} | {best:.3f} | {iterations:.0f} | {stated:.4f}",
            rows,
        ),
        _plain("Mean absolute error of a distance, range 25, t = 3",
               by_what["distances"], ("bits", "b"), COLUMNS),
        _plain("Vertical form: error of a distance, b = 1", by_what["vertical"], ("columns",),
               VERTICAL),
        document.table_of(
            "Shapes",
            "set | DBSCAN ARI, mean | of ten draws | kCluster NMI",
            "{set}, {name} | {ari:.3f} | {ari_range[0]:.2f} to {ari_range[1]:.2f} | "
            "{kcluster_nmi:.3f}",
            by_what["shapes"],
        ),
    ]  # fmt: skip
    tables.append(_plain("Record linkage, best F1", by_what["linkage"], ("name",), ("f1",)))
    tables.append(_plain("Attack on a published value: error in parts of the range",
                         by_what["attack"], ("b",),
                         ("median", "p95", "posterior", "collusion")))  # fmt: skip
    tables.append(_plain("Springboards: error of a distance over a gap of 15, t = 3",
                         by_what["springboards"], ("b",), ("alone", "with them")))  # fmt: skip
    tables.append(_plain("Figure 9: bits s for a claimed (b, delta), and epsilon of one value",
                         by_what["length"], ("b", "delta"), ("s", "spent")))  # fmt: skip
    return tables


def _plain(
    title: str, points: list[dict[str, Any]], names: Sequence[str], values: Sequence[str]
) -> Table:
    rows = [
        [", ".join(f"{n} {p[n]}" if p[n] is not None else f"no {n}" for n in names),
         *(f"{p[v]:.3g}" for v in values)]
        for p in points
    ]  # fmt: skip
    return document.table(title, [" and ".join(names), *values], rows)


def draw(result: Document, file: plot.File) -> None:
    """NMI on digits over b, with the published values; and Figure 7: clusters of the shapes."""
    digits = [p for p in result["points"] if p["what"] == "digits" and "b" in p]
    series = []
    for name, ending in (("as printed", ""), ("own distance 0", ", own distance 0"),
                         ("debiased", ", debiased")):  # fmt: skip
        own = [p for p in digits if p["name"] == f"b = {p['b']:g}{ending}"]
        series.append(Series(name, [p["b"] for p in own], [p["mean"] for p in own]))
    series.append(Series("published", [1, 2], [PUBLISHED["b = 1"], PUBLISHED["b = 2"]],
                         published=True))  # fmt: skip
    panels = [Panel("kCluster on digits", "b of one bit", "NMI", series)]
    for picture in (p for p in result["points"] if p["what"] == "picture"):
        labels, places = np.array(picture["labels"]), np.array(picture["places"])
        shown = [
            Series(
                "noise" if label < 0 else f"cluster {label % 8}",
                places[0, labels == label].tolist(),
                places[1, labels == label].tolist(),
                scattered=True,
            )
            for label in np.unique(labels).tolist()
        ]
        panels.append(Panel(picture["name"], "", "", shown))
    plot.lines(file, panels, "PrivBV and DPBV", columns=5)
