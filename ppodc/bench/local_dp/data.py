"""Public data sets of the experiments under differential privacy, read from a folder of copies."""

import csv
import gzip
import io
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]

# By meaning, not from the data: calls of half an hour, 20 calls, a weight of half a million; what
# lies beyond is cut to them.
_BANK_BOUNDS = {"age": (18, 95), "day": (1, 31), "duration": (0, 1800), "campaign": (1, 20)}
_ADULT_BOUNDS = {0: (0, 100), 4: (1, 16), 12: (0, 100), 2: (0, 500_000)}
COVERTYPE = "covtype/covtype.data.gz"
_CAR = (
    ("low", "med", "high", "vhigh"),
    ("low", "med", "high", "vhigh"),
    ("2", "3", "4", "5more"),
    ("2", "4", "more"),
    ("small", "med", "big"),
    ("low", "med", "high"),
)
_NURSERY = (
    ("usual", "pretentious", "great_pret"),
    ("proper", "less_proper", "improper", "critical", "very_crit"),
    ("complete", "completed", "incomplete", "foster"),
    ("1", "2", "3", "more"),
    ("convenient", "less_conv", "critical"),
    ("convenient", "inconv"),
    ("nonprob", "slightly_prob", "problematic"),
    ("recommended", "priority", "not_recom"),
)


@dataclass(frozen=True, slots=True)
class Labelled:
    """Records in unit ranges (numbers) or categories, and their classes."""

    records: NDArray[Any]
    labels: Integers


class DataFolder:
    """Folder of the copies. An error names a missing one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _bytes(self, name: str) -> bytes:
        file = self._folder / name
        if not file.is_file():
            raise InputError(f"{file} is not there: name the folder of the data sets with --data.")
        data = file.read_bytes()
        return gzip.decompress(data) if file.suffix == ".gz" else data

    def _rows(self, name: str, delimiter: str = ",") -> list[list[str]]:
        text = io.StringIO(self._bytes(name).decode())
        return [row for row in csv.reader(text, delimiter=delimiter, skipinitialspace=True) if row]

    def sipu(self, name: str) -> Labelled:
        """A two-dimensional benchmark set, bounds from the data."""
        points = np.loadtxt(io.BytesIO(self._bytes(f"sipu/{name}.data.gz")))
        labels = np.loadtxt(io.BytesIO(self._bytes(f"sipu/{name}.labels0.gz")))
        return Labelled(unit(points), labels.astype(np.int64))

    def digits(self) -> Labelled:
        """8 x 8 images of handwritten digits."""
        table = np.array(self._rows("digits/digits.csv.gz"), np.float64)
        return Labelled(table[:, :-1] / 16, table[:, -1].astype(np.int64))

    def two_moons(self) -> Labelled:
        """Two half moons; the last column is the class."""
        table = _matlab_matrix(self._bytes("twomoon/twomoon.mat"))
        return Labelled(unit(table[:, :2]), table[:, 2].astype(np.int64))

    def adult(self) -> Reals:
        """age, education-num, hours, fnlwgt with fixed bounds."""
        rows = self._rows("adult/adult.data")
        return _bounded(
            {name: [float(row[name]) for row in rows] for name in _ADULT_BOUNDS}, _ADULT_BOUNDS
        )

    def adult_mixed(self) -> tuple[Integers, tuple[int, ...]]:
        """age, hours (0..1000), marital status, sex (numbered); sizes, 0 for a number."""
        rows = self._rows("adult/adult.data")
        numbers = [np.rint(np.array([float(row[c]) for row in rows]) * 10) for c in (0, 12)]
        words = [_numbered([row[c] for row in rows]) for c in (5, 9)]
        sizes = (0, 0, *(int(column.max()) + 1 for column in words))
        return np.stack([*numbers, *words], axis=1).astype(np.int64), sizes

    def bank(self) -> Reals:
        """age, day, duration, campaign with fixed bounds."""
        head, *rows = self._rows("bank/bank-full.csv.gz", ";")
        columns = {name: [float(row[head.index(name)]) for row in rows] for name in _BANK_BOUNDS}
        return _bounded(columns, _BANK_BOUNDS)

    def bank_all(self) -> Labelled:
        """All 16 columns (words by the order of their first appearance), and the answer."""
        _, *rows = self._rows("bank/bank-full.csv.gz", ";")
        columns = [_numbered(column) for column in zip(*rows, strict=True)]
        return Labelled(unit(np.stack(columns[:-1], axis=1)), columns[-1].astype(np.int64))

    def car(self) -> Labelled:
        return self._halves("uci-small/car.data", _CAR)

    def nursery(self) -> Labelled:
        return self._halves("uci-small/nursery.data", _NURSERY)

    def _halves(self, name: str, orders: tuple[tuple[str, ...], ...]) -> Labelled:
        """Values in their documented order, the upper half becomes 1."""
        rows = self._rows(name)
        records = np.array(
            [[int(order.index(row[j]) >= len(order) / 2) for j, order in enumerate(orders)]
             for row in rows], np.int64)  # fmt: skip
        return Labelled(records, _numbered([row[-1] for row in rows]).astype(np.int64))

    def covertype(self) -> Labelled:
        """Wilderness area (4) and climatic zone of the soil (7): the two sizes of the source.

        The zone is the first digit of the soil's code, of which the set has 40 in this order.
        """
        text = io.BytesIO(self._bytes(COVERTYPE))
        table = np.loadtxt(text, dtype=np.int64, delimiter=",", usecols=range(10, 55))
        zone = np.repeat(np.arange(7), (6, 2, 5, 2, 3, 16, 6))[table[:, 4:44].argmax(axis=1)]
        return Labelled(np.stack([table[:, :4].argmax(axis=1), zone], axis=1), table[:, 44])

    def auto(self) -> Labelled:
        """Cylinders (<= 4, 5-6, 8), acceleration above the median, year in thirds; origin."""
        rows = [
            line.split() for line in self._bytes("uci-small/auto-mpg.data").decode().split("\n")
        ]
        rows = [row for row in rows if row]
        cylinders = np.array([int(row[1]) for row in rows])
        acceleration = np.array([float(row[5]) for row in rows])
        year = np.array([int(row[6]) for row in rows])
        thirds = np.quantile(year, [1 / 3, 2 / 3])
        records = np.stack(
            [
                np.searchsorted([5, 7], cylinders, side="right"),
                (acceleration > np.median(acceleration)).astype(np.int64),
                np.searchsorted(thirds, year),
            ],
            axis=1,
        )
        return Labelled(records.astype(np.int64), np.array([int(row[7]) for row in rows]))


def unit(points: Reals) -> Reals:
    """Columns scaled to 0..1 by their own smallest and largest value."""
    low, high = points.min(axis=0), points.max(axis=0)
    return np.asarray((points - low) / np.where(high > low, high - low, 1.0))


def _bounded(columns: dict[Any, list[float]], bounds: dict[Any, tuple[int, int]]) -> Reals:
    scaled = [
        (np.array(values) - bounds[name][0]) / (bounds[name][1] - bounds[name][0])
        for name, values in columns.items()
    ]
    return np.clip(np.stack(scaled, axis=1), 0.0, 1.0)


def _numbered(column: Any) -> Reals:
    """Numbers as they are, words by their first appearance."""
    try:
        return np.array([float(entry) for entry in column])
    except ValueError:
        places = {word: float(i) for i, word in enumerate(dict.fromkeys(column))}
        return np.array([places[word] for word in column])


def _matlab_matrix(data: bytes) -> Reals:
    """The one matrix of doubles in a MATLAB 5 file: compressed, little endian."""
    body = zlib.decompress(data[136:])[8:]
    shape: tuple[int, ...] = ()
    at = 0
    while at < len(body):
        kind, size = struct.unpack_from("<II", body, at)
        if kind >> 16:  # a small element: size and data within 8 bytes
            at += 8
            continue
        if kind == 5 and size >= 8:
            shape = struct.unpack_from(f"<{size // 4}i", body, at + 8)
        elif kind in (2, 9) and shape:
            values = np.frombuffer(body, "<f8" if kind == 9 else np.uint8,
                                   shape[0] * shape[1], at + 8)  # fmt: skip
            return values.astype(np.float64).reshape(shape, order="F")
        at += 8 + -(-size // 8) * 8
    raise InputError("the file holds no matrix of doubles")


def encoded(records: Reals, ub: int) -> Integers:
    """Unit ranges to whole numbers 0..ub."""
    return np.rint(records * ub).astype(np.int64)


def sample_with_jitter(points: Reals, rows: int, jitter: float, seed: int) -> Reals:
    """Records drawn with repetition, moved a little: a larger set of the same shape."""
    generator = np.random.default_rng(seed)
    drawn = points[generator.integers(0, len(points), rows)]
    return np.asarray(np.clip(drawn + generator.normal(0, jitter, drawn.shape), 0.0, 1.0))
