"""`ppodc bench ldp ldpseg`: LDPseg and its variants on BANK and digits, beside an honest budget.

Accuracy near the share of the majority class (88.30 % on BANK) shows nothing; the mean squared
error of a value in unit ranges does. There are no CNN features of MNIST: pixels of digits and a
linear classifier show the order of the encodings.
"""

from typing import Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, plot
from ppodc.bench.document import Document, Table, grouped
from ppodc.bench.local_dp.data import DataFolder, Labelled, encoded
from ppodc.bench.local_dp.options import FOLDER, Data
from ppodc.bench.local_dp.scores import linear_accuracy, neighbours, seeded
from ppodc.bench.plot import Bars
from ppodc.bench.points import notices
from ppodc.local_dp.published.bit_codes import (
    BitCode,
    binary,
    binary_values,
    thermometer,
    weight_values,
    weighted,
)
from ppodc.local_dp.published.bit_estimates import decoded, ones_estimates
from ppodc.local_dp.published.bit_reports import ldpseg, ldpseg_as_published
from ppodc.local_dp.published.flips import MoueVariant
from ppodc.local_dp.report_streams import insecure_streams

UB = 1000
BITS = 10
Rule = Literal["moue", "uer"]
Reals = NDArray[np.float64]
PUBLISHED = {  # accuracy train/test
    "LDPseg, UER": (0.9149, 0.9023),
    "binary, UER": (0.8837, 0.8742),
}


def codes() -> dict[str, tuple[BitCode, Reals]]:
    """Encodings and what their bits are worth, in unit ranges."""
    made = {"LDPseg": (thermometer(UB, BITS), np.full(BITS, 1 / BITS))}
    for w in (1.2, 1.4, 1.6, 1.8, 2.0):
        made[f"w = {w:g}"] = (weighted(UB, BITS, w), weight_values(UB, BITS, w) / UB)
    made["binary"] = (binary(UB, UB, 1, BITS - 1), binary_values(UB, 1, BITS - 1) / UB)
    return made


def published(
    records: NDArray[np.int64], code: BitCode, values: Reals, rule: Rule, variant: MoueVariant
) -> tuple[Reals, float]:
    """(values as the published decoder reads them, guaranteed epsilon of a record)."""
    rows, columns = records.shape
    mechanism = ldpseg_as_published(columns, code, rows=rows, flips=rule, moue_variant=variant)
    reports = mechanism.perturb(records, insecure_streams(rows, 1))
    guaranteed = mechanism.guarantee().guaranteed.epsilon
    return decoded(reports, mechanism, values, debias=False), guaranteed


def honest(
    records: NDArray[np.int64], epsilon: float, *, debias: bool
) -> tuple[Reals, float]:  # fmt: skip
    """With `epsilon` for a record: the share of ones, or debiased and cut to the range."""
    mechanism = ldpseg(records.shape[1], UB, epsilon=epsilon, bits=BITS)
    reports = mechanism.perturb(records, insecure_streams(len(records), 1))
    if debias:
        values = np.clip(ones_estimates(reports, mechanism) / BITS, 0.0, 1.0)
    else:
        values = decoded(reports, mechanism, np.full(BITS, 1 / BITS), debias=False)
    return values, mechanism.guarantee().guaranteed.epsilon


def _variants(records: NDArray[np.int64]) -> dict[str, tuple[Reals, float | None]]:
    made: dict[str, tuple[Reals, float | None]] = {}
    for name, (code, values) in codes().items():
        made[f"{name}, UER"] = published(records, code, values, "uer", "text")
        made[f"{name}, MOUE"] = published(records, code, values, "moue", "text")
    code, values = codes()["LDPseg"]
    made["LDPseg, MOUE by its proof"] = published(records, code, values, "moue", "proof")
    for sigma in (0.1, 0.3):
        noise = np.random.default_rng(1).normal(0, sigma, records.shape)
        made[f"Gaussian, sigma {sigma:g}"] = records / UB + noise, None
    for epsilon in (1.0, 64.0, 257.5):
        made[f"honest, eps {epsilon:g}"] = honest(records, epsilon, debias=False)
        made[f"honest, eps {epsilon:g}, debiased"] = honest(records, epsilon, debias=True)
    return made


def run(
    data: Data = FOLDER,
    knn_rows: Annotated[
        int, typer.Option(help="Records of BANK for k-NN; 0 leaves it out.")
    ] = 45_211,
) -> Document:
    """LDPseg with MOUE and UER on BANK and digits, beside an honest budget."""
    folder = DataFolder(data)
    points = _bank(folder.bank_all(), knn_rows) + _digits(folder.digits())
    return document.make(
        "ldp ldpseg",
        _tables,
        parameters={"knn_rows": knn_rows, "a": 5, "claimed_epsilon": 1, "bits": BITS},
        points=points,
        published={name: list(values) for name, values in PUBLISHED.items()},
        notes=[
            "epsilon: guaranteed for one record; the source claims 1 for the whole table. "
            "Words of BANK are numbered by first appearance. Gaussian noise, the source's "
            "baseline, has no epsilon that the source states.",
            "'honest': epsilon for a record, read by the published decoder, which is biased: it "
            "draws values to the middle, which is safest where there is little but noise. Debiased "
            "and cut to the range they are better once epsilon is large.",
        ],
    )


def _bank(bank: Labelled, knn_rows: int) -> list[dict[str, Any]]:
    records = encoded(bank.records, UB)
    order = seeded(1).permutation(len(records))[:knn_rows]
    train, test = order[: len(order) * 3 // 4], order[len(order) * 3 // 4 :]
    points = []
    for name, (values, epsilon) in {"clean": (bank.records, None), **_variants(records)}.items():
        notices.print(f"BANK: {name}", markup=False)
        point = {"data": "BANK", "name": name, "epsilon": epsilon,
                 "mse": float(((values - bank.records) ** 2).mean())}  # fmt: skip
        if knn_rows:
            for part, rows in (("train", train), ("test", test)):
                guess = neighbours(values[train], bank.labels[train], values[rows])
                point[part] = float((guess == bank.labels[rows]).mean())
        points.append(point)
    return points


def _digits(digits: Labelled) -> list[dict[str, Any]]:
    """A linear classifier on perturbed pixels."""
    records = encoded(digits.records, UB)
    order = seeded(2).permutation(len(records))
    split = len(order) * 1300 // 1797
    train, test = order[:split], order[split:]
    variants = {"clean": (digits.records, None), **_variants(records)}
    return [
        {
            "data": "digits",
            "name": name,
            "epsilon": epsilon,
            "test": linear_accuracy(
                values[train], digits.labels[train], values[test], digits.labels[test]
            ),
        }
        for name, (values, epsilon) in variants.items()
    ]


def _tables(result: Document) -> list[Table]:
    points = grouped(result["points"], "data")
    rows = [
        {"train": None, "test": None, **p, "claim": " / ".join(f"{v:.4f}" for v in claimed)}
        for p in points["BANK"]
        for claimed in [PUBLISHED.get(p["name"], ())]
    ]
    return [
        document.table_of(
            "LDPseg on BANK, a = 5",
            "BANK, 16 columns | epsilon of a record | mean squared error | k-NN train | k-NN test "
            "| published",
            "{name} | {epsilon:digits} | {mse:.3g} | {train:.4f} | {test:.4f} | {claim}",
            rows,
        ),
        document.table_of(
            "Perturbed pixels",
            "digits, 64 pixels | epsilon of a record | linear classifier, test",
            "{name} | {epsilon:digits} | {test:.3f}",
            points["digits"],
        ),
    ]


def draw(result: Document, file: plot.File) -> None:
    """Mean squared error by variant."""
    points = [p for p in result["points"] if p["data"] == "BANK" and p["name"] != "clean"]
    groups = [p["name"].replace(", ", ",\n") for p in points]
    bars = Bars("", "", "mean squared error", groups, {"BANK": [p["mse"] for p in points]})
    plot.bars(file, [bars], "LDPseg: error of a value")
