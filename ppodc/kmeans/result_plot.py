"""Results as pictures: centres over two columns, with the owner's own records if it has them; the
inertia over several numbers of clusters."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import OptionError
from ppodc.extras import named_if_missing
from ppodc.records.read_table import Only, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ppodc.kmeans.result import Result, ResultsByK

_MARKERS = "os^Dv*"


def draw(result: "Result", data: Any, x: int, y: int, axes: "Axes | None") -> "Axes":
    """Draw a result (`Result.plot`)."""
    width = len(result.columns)
    if width < 2 or not (0 <= x < width and 0 <= y < width):
        raise OptionError(f"a plot needs two of the columns 0 to {width - 1}: choose x and y.")
    if axes is None:
        with named_if_missing():
            from matplotlib import pyplot

        axes = pyplot.subplots(figsize=(7, 5), layout="constrained")[1]
    if data is not None:
        several = list(data.values()) if isinstance(data, Mapping) else data
        given = several if isinstance(several, list | tuple) else [several]
        tables: list[Any] = [Only(table) for table in given]
        labels = np.concatenate([result.predict(table) for table in tables])
        values = np.concatenate([_values(result, table) for table in tables])
        for h in np.unique(labels).tolist():
            own, marker = values[labels == h], _MARKERS[h % len(_MARKERS)]
            axes.scatter(own[:, x], own[:, y], s=14, marker=marker, alpha=0.6, label=f"cluster {h}")
    centres = result.cluster_centers_
    axes.scatter(centres[:, x], centres[:, y], s=160, c="black", marker="X", label="centres")
    axes.set_xlabel(result.columns[x])
    axes.set_ylabel(result.columns[y])
    axes.legend()
    return axes


def _values(result: "Result", data: Any) -> NDArray[np.float64]:
    """The values of the result's columns, in its order."""
    table = read(data)
    names = list(result.columns)
    return table.values if table.names is None else table.some_columns(names).values


def draw_elbow(results: "ResultsByK", file: Path) -> None:
    """The inertia over k as PNG: where the line bends, more clusters gain little."""
    with named_if_missing():
        from matplotlib.figure import Figure

    inertias = results.inertias_
    if not inertias:
        raise OptionError(
            "the spec does not offer the inertia (job.inertia = true): nothing to draw."
        )
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(list(inertias), [float(inertia) for inertia in inertias.values()], "o-")
    axes.set_xticks(list(inertias))
    axes.set_xlabel("clusters (k)")
    axes.set_ylabel("inertia, in units of 0..ub squared")
    axes.set_ylim(bottom=0)
    figure.savefig(file, dpi=150)
