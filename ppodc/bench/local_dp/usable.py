"""`ppodc bench ldp usable`: are local results that say they are usable, and do intervals cover?

Cost is the mean squared distance to the nearest centre; its ratio to that of k-means without
privacy is the loss. Of the runs that say usable, the share below the stated factor is shown. An
interval is a centre's coordinate and two standard errors to either side; it should hold the
coordinate of the centre of k-means that is nearest, in 95 of 100 cases.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ppodc.bench import document
from ppodc.bench.document import Document, Table
from ppodc.bench.local_dp import options
from ppodc.bench.local_dp.beyond import SETS, UB
from ppodc.bench.local_dp.data import DataFolder, Integers, Reals, encoded
from ppodc.bench.local_dp.scores import reference_kmeans
from ppodc.bench.points import notices
from ppodc.crypto.random_stream import SecureRandom
from ppodc.local_dp.codebook import Codebook, points_for
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.local_dp.stability import FACTOR, usable
from ppodc.privacy.weighted_kmeans import mean_squared_distance, nearest, weighted_kmeans

_OTHER_RUNS = 1000  # seeds that no trial of the rule has seen


def run(
    data: options.Data = options.FOLDER,
    sets: options.Sets = options.SET_NAMES,
    epsilons: options.Epsilons = options.EPSILONS,
    runs: options.Runs = 5,
) -> Document:
    """`usable_` and `standard_error_` of local k-means beside the truth, over epsilon."""
    points = []
    for name in sets:
        load, k = SETS[name]
        records = load(DataFolder(data))
        notices.print(f"{name}, k-means without privacy")
        points += [{"set": name, **point} for point in measured(records, k, epsilons, runs)]
    return document.make(
        "ldp usable",
        _tables,
        parameters={"sets": list(sets), "epsilons": list(epsilons), "runs": runs},
        points=points,
        notes=_notes(points),
    )


def measured(
    records: Reals, k: int, epsilons: Sequence[float], runs: int
) -> Iterator[dict[str, Any]]:
    """Losses of some runs, which of them say usable, and how many intervals hold."""
    whole = encoded(records, UB)
    reference = reference_kmeans(records, k)
    best, _ = weighted_kmeans(
        whole.astype(np.float64),
        np.ones(len(whole)),
        k,
        random=SecureRandom.public(1),
        starts=10,
    )
    for epsilon in epsilons:
        notices.print(f"epsilon {epsilon:g}")
        found = [_one(records, whole, best, k, epsilon, _OTHER_RUNS + n) for n in range(runs)]
        trusted = [each for each in found if each["usable"]]
        yield {
            "epsilon": epsilon,
            "rows": len(records),
            "k": k,
            "losses": [each["cost"] / reference for each in found],
            "usable": [each["usable"] for each in found],
            "held": sum(each["held"] for each in trusted),
            "intervals": sum(each["intervals"] for each in trusted),
        }


def _one(
    records: Reals, whole: Integers, best: Reals, k: int, epsilon: float, seed: int
) -> dict[str, Any]:
    n = len(whole)
    book = Codebook.of(whole.shape[1], UB, epsilon, points_for(n, k, epsilon), seed)
    counts = book.count(book.perturb(whole, insecure_streams(n, seed)))
    centres, _ = book.centres(counts, n, k, seed)
    stability = book.stability(counts, n, centres, seed)
    apart = np.abs(best[nearest(centres, best)] - centres)
    return {
        "cost": mean_squared_distance(records, centres / UB),
        "usable": usable(stability.loss, book.expectation(n, k).noise),
        "held": int((apart <= 2 * stability.errors).sum()),
        "intervals": apart.size,
    }


def _notes(points: Sequence[dict[str, Any]]) -> list[str]:
    both = [pair for point in points for pair in zip(point["usable"], point["losses"], strict=True)]
    trusted = [loss for said, loss in both if said]
    good = sum(loss < FACTOR for loss in trusted)
    missed = sum(loss < FACTOR for said, loss in both if not said)
    held, intervals = (sum(point[name] for point in points) for name in ("held", "intervals"))
    return [
        f"{len(trusted)} of {len(both)} runs say usable; {good} of these cost less than {FACTOR:g} "
        f"times k-means ({good / max(1, len(trusted)):.0%}). Of the others {missed} do.",
        f"{held} of {intervals} intervals of usable runs hold ({held / max(1, intervals):.0%}).",
    ]


def _tables(result: Document) -> list[Table]:
    rows = [
        {
            **point,
            "said": f"{sum(point['usable'])} of {len(point['usable'])}",
            "median": float(np.median(point["losses"])),
            "worst": max(
                (x for said, x in zip(point["usable"], point["losses"], strict=True) if said),
                default=None,
            ),
            "cover": point["held"] / point["intervals"] if point["intervals"] else None,
        }
        for point in result["points"]
    ]
    return [
        document.table_of(
            f"Local k-means: usable means a loss below {FACTOR:g} in nine runs of ten",
            "set | rows | k | epsilon | say usable | loss, median | worst usable | intervals hold",
            "{set} | {rows:,} | {k} | {epsilon:g} | {said} | {median:.2f} | {worst:.2f} | "
            "{cover:.2f}",
            rows,
        )
    ]
