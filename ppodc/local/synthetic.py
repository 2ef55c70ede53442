"""Made-up records for demonstrations: groups of points on a plane. Nothing here hides anything."""

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.job import Job
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec


def clinics(rows: int = 600, groups: int = 3, seed: int = 7) -> NDArray[np.float64]:
    """Two measurements (age, blood pressure) of invented patients in some groups."""
    g = np.random.default_rng(seed)
    middles = np.array([[28.0, 112.0], [52.0, 148.0], [76.0, 128.0], [40.0, 180.0]])[:groups]
    points = middles[g.integers(0, groups, rows)] + g.normal(0, (6.0, 9.0), (rows, 2))
    return np.asarray(np.round(np.clip(points, (0, 60), (110, 220)), 1), dtype=np.float64)


def clinic_spec(k: int = 3, max_iter: int = 20) -> Spec:
    """The spec that goes with `clinics`."""
    columns = (Column("age", 0, 110), Column("pressure", 60, 220))
    return Spec("clinics", Schema(columns, 1000), Job(k=k, max_iter=max_iter, seed=4, labels=True))
