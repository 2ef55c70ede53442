"""Plots for a paper: lines and bars.

Markers, line styles and hatches distinguish them as well as colours, for printers without colour.
Hollow markers are estimates, crosses are published values.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ppodc.bench.document import grouped
from ppodc.errors import InputError

# Okabe and Ito's colours differ for all kinds of colour vision, and in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#999999")
_MARKERS = ("o", "s", "^", "D", "v", "P", "<", ">")
_CROSSES = ("x", "+", "*")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oooo", "----")
_WIDTH, _HEIGHT, _DPI = 4.6, 3.4, 200
LABELS = {"m": "records m", "k": "clusters k", "l": "attributes l"}

File = Path | IO[bytes]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot. `estimated` points are hollow, `published` ones black crosses."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    estimated: bool = False
    published: bool = False
    scattered: bool = False  # points without a line


def series(
    name: str, points: Sequence[Mapping[str, Any]], x: str, y: str, *, unit: float = 1, **look: bool
) -> Series:
    """A line through points, by the names of two of their figures."""
    return Series(name, [p[x] for p in points], [p[y] / unit for p in points], **look)


def series_by(
    name: str, points: Sequence[dict[str, Any]], by: str, x: str, y: str, **how: Any
) -> list[Series]:
    """A line for each value of the figure `by`. `name` is a template, such as "k = {k}"."""
    lines = grouped(points, by).values()
    return [series(name.format(**line[0]), line, x, y, **how) for line in lines]


@dataclass(frozen=True, slots=True)
class Panel:
    """One of several plots of lines side by side."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]


@dataclass(frozen=True, slots=True)
class Bars:
    """A plot of bars: for every group the named values; `published` ones are crosses beside."""

    title: str
    x_label: str
    y_label: str
    groups: Sequence[str]
    values: Mapping[str, Sequence[float]]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # name: by group


def lines(
    file: File, plots: Sequence[Panel], title: str, *, log: str = "", columns: int = 0
) -> None:
    """Plots of lines with one legend, `columns` side by side. A name has one style in all plots.

    `log` names the logarithmic axes: "", "x", "y" or "xy".
    """
    names = list(dict.fromkeys(s.name for plot in plots for s in plot.series))
    with _figure(file, plots, title, log, columns) as (grid, shown):
        for axes, plot in zip(grid, plots, strict=True):
            for one in plot.series:
                shown[one.name] = axes.plot(one.x, one.y, **_style(one, names))[0]
            if "x" not in log and all(x == int(x) for one in plot.series for x in one.x):
                axes.xaxis.get_major_locator().set_params(integer=True)


def bars(
    file: File, plots: Sequence[Bars], title: str, *, stacked: bool = True, log: str = ""
) -> None:
    """Plots of bars with one legend. The values of a group are stacked or side by side."""
    names = list(dict.fromkeys(name for plot in plots for name in plot.values))
    with _figure(file, plots, title, log.replace("x", "")) as (grid, shown):
        for axes, plot in zip(grid, plots, strict=True):
            width = 0.7 if stacked else 0.8 / max(1, len(plot.values))
            base = [0.0] * len(plot.groups)
            for number, (name, heights) in enumerate(plot.values.items()):
                shift = 0.0 if stacked else (number - (len(plot.values) - 1) / 2) * width
                where = [i + shift for i in range(len(plot.groups))]
                look = {**_bar_style(names.index(name)), "bottom": base if stacked else 0.0}
                shown[name] = axes.bar(where, heights, width, **look)
                base = [low + high for low, high in zip(base, heights, strict=True)]
            for number, (name, by_group) in enumerate(plot.published.items()):
                where = [plot.groups.index(group) for group in by_group]
                shown[name] = axes.plot(where, list(by_group.values()), **_cross(number))[0]
            axes.set_xticks(range(len(plot.groups)), plot.groups)


@contextmanager
def _figure(
    file: File, plots: Sequence[Panel | Bars], title: str, log: str, columns: int = 0
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield the axes of each plot and the entries of the legend, then save the figure."""
    from matplotlib.figure import Figure

    if not plots:
        raise InputError("There is nothing to draw. Measure more points.")
    columns = columns or len(plots)
    rows = -(-len(plots) // columns)
    figure = Figure(figsize=(_WIDTH * columns, _HEIGHT * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for spare in axes[len(plots) :]:
        spare.remove()
    grid, shown = axes[: len(plots)], dict[str, Any]()
    yield grid, shown
    for one, plot in zip(grid, plots, strict=True):
        _finish(one, plot, log)
    figure.suptitle(title, fontsize=10)
    _legend(figure, shown)
    if isinstance(file, Path):
        file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=_DPI, format=None if isinstance(file, Path) else "png")


def _bar_style(number: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "hatch": _HATCHES[number % len(_HATCHES)],
        "edgecolor": "white",
    }


def _cross(number: int) -> dict[str, Any]:
    """A published value: without a line, because nothing was published between the points."""
    look = {"color": "black", "marker": _CROSSES[number % len(_CROSSES)], "linestyle": "none"}
    return {**look, "markersize": 8, "markeredgewidth": 1.6}


def _style(one: Series, names: list[str]) -> dict[str, Any]:
    number = names.index(one.name)
    if one.published:
        return _cross(number)
    colour = _COLOURS[number % len(_COLOURS)]
    if one.scattered:
        look = {"color": colour, "marker": _MARKERS[number % len(_MARKERS)], "linestyle": "none"}
        return {**look, "markersize": 2}
    return {
        "color": colour,
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "markersize": 5,
        "linewidth": 1.4,
        "markerfacecolor": "white" if one.estimated else colour,
    }


def _finish(axes: Any, plot: Panel | Bars, log: str) -> None:
    axes.set(xlabel=plot.x_label, ylabel=plot.y_label)
    axes.set_title(plot.title, fontsize=9)
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(visible=True, which="major", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)


def _legend(figure: Any, shown: dict[str, Any]) -> None:
    """Below the plots, in as many columns as fit."""
    widest = 0.75 + 0.06 * max(map(len, shown), default=0)  # inches: a sample and its name
    figure.legend(
        shown.values(),
        shown.keys(),
        loc="outside lower center",
        ncols=max(1, min(len(shown), int(figure.get_figwidth() / widest))),
        fontsize=8,
        frameon=False,
        handlelength=3.5,
    )
