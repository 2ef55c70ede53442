"""A result as a picture: centres over two columns, and the owner's own records if it has them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ppodc.errors import InputError
from ppodc.records.read_table import read

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ppodc.kmeans.result import Result

_MARKERS = "os^Dv*"


def draw(result: "Result", data: Any, x: int, y: int, axes: "Axes | None") -> "Axes":
    """See `Result.plot`."""
    width = len(result.columns)
    if width < 2 or not (0 <= x < width and 0 <= y < width):
        raise InputError(f"a plot needs two of the columns 0 to {width - 1}: choose x and y.")
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(figsize=(7, 5), layout="constrained")[1]
    if data is not None:
        labels, values = result.predict(data), read(data).values
        for h in np.unique(labels).tolist():
            own, marker = values[labels == h], _MARKERS[h % len(_MARKERS)]
            axes.scatter(own[:, x], own[:, y], s=14, marker=marker, alpha=0.6, label=f"cluster {h}")
    centres = result.cluster_centers_
    axes.scatter(centres[:, x], centres[:, y], s=160, c="black", marker="X", label="centres")
    axes.set_xlabel(result.columns[x])
    axes.set_ylabel(result.columns[y])
    axes.legend()
    return axes
