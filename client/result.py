"""The result as an owner opens it: both clouds' halves added up, in real units."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.job import job_of
from ppodc.records.encode import decode_centres
from ppodc.records.output_half import OutputHalf, open_output
from ppodc.spec import Spec


@dataclass(frozen=True, slots=True)
class Result:
    """The clusters of a dataset, and the labels of this owner's rows if the spec offers them.

    `sums_` and `sizes_` are exact, in encoded units; a centre is their quotient, rounded once.
    Labels stand in the order in which the owner uploaded.
    """

    cluster_centers_: NDArray[np.float64]
    sizes_: NDArray[np.int64]
    sums_: NDArray[np.int64]
    n_iter_: int
    converged_: bool
    labels_: NDArray[np.int64] | None
    columns: tuple[str, ...]


def open_clusters(
    spec: Spec, first: OutputHalf, second: OutputHalf
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(sums, sizes) from both halves; InputError if they cannot belong together."""
    columns, k = len(spec.schema.columns), job_of(spec).k
    values = _open(first, second)
    if len(values) != k * (columns + 1):
        raise _mismatch()
    rows = [values[h * (columns + 1) : (h + 1) * (columns + 1)] for h in range(k)]
    for *sums, size in rows:
        # Halves of two different runs add up to random numbers, which this finds.
        if not 1 <= size < 1 << 40 or max(sums) > size * spec.schema.ub:
            raise _mismatch()
    table = np.array(rows, np.int64).reshape(k, columns + 1)
    return table[:, :columns].copy(), table[:, columns].copy()


def open_labels(spec: Spec, first: OutputHalf, second: OutputHalf) -> NDArray[np.int64]:
    """The cluster of each row."""
    values = _open(first, second)
    if values and max(values) >= job_of(spec).k:
        raise _mismatch()
    return np.array(values, np.int64)


def centres(spec: Spec, sums: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The centres in real units."""
    return decode_centres(sums, sizes, spec.schema)


def _open(first: OutputHalf, second: OutputHalf) -> list[int]:
    try:
        return open_output(first, second)
    except ValueError:
        raise _mismatch() from None


def _mismatch() -> InputError:
    return InputError(
        "the halves of the two clouds do not belong together; ask their operators to run the job "
        "again."
    )
