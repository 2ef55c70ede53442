"""One look for all measurements: a table for people, a JSON document, a plot for a paper.

Plots are told apart by markers, line styles and hatches as well as by colour, so they survive a
black and white printer. Hollow markers are estimates, crosses are published values.
"""

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table

SCHEMA = 1
_PACKAGES = ("ppodc", "numpy", "gmpy2", "numba", "pyzmq", "cryptography", "ray")
_CODE = ("ppodc", "cloud1", "cloud2", "master", "client")
# Of `bench`, what only shows values.
_LOOKS = ("figure", "page", "report", "glance", "commands", "experiment_commands", "published")
# Okabe and Ito's colours: different for all kinds of colour vision, and different in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#999999")
_MARKERS = ("o", "s", "^", "D", "v", "P", "<", ">")
_CROSSES = ("x", "+", "*")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oooo", "----")
_WIDTH, _HEIGHT, _DPI = 4.6, 3.4, 200

File = Path | IO[bytes]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot; `estimated` points are hollow, `published` ones black crosses."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    estimated: bool = False
    published: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One of several plots side by side."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]


@dataclass(frozen=True, slots=True)
class Bars:
    """A plot of bars: for every group the named values."""

    title: str
    x_label: str
    y_label: str
    groups: Sequence[str]
    values: Mapping[str, Sequence[float]]


def lines(
    file: File,
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    title: str,
    *,
    log: str = "",
) -> None:
    """A plot of lines; `log` names the logarithmic axes: "", "x", "y" or "xy"."""
    panels(file, [Panel("", x_label, y_label, series)], title, log=log)


def panels(
    file: File, plots: Sequence[Panel], title: str, *, log: str = "", columns: int = 0
) -> None:
    """Plots of lines with one legend, `columns` side by side; a name has one style everywhere."""
    figure, grid = _grid(len(plots), columns or len(plots))
    names = list(dict.fromkeys(s.name for plot in plots for s in plot.series))
    shown: dict[str, Any] = {}
    for axes, plot in zip(grid, plots, strict=True):
        for one in plot.series:
            shown[one.name] = axes.plot(one.x, one.y, label=one.name, **_style(one, names))[0]
        whole = all(x == int(x) for one in plot.series for x in one.x)
        _finish(axes, plot.x_label, plot.y_label, plot.title, log, whole=whole)
    figure.suptitle(title, fontsize=10)
    _legend(figure, shown)
    _save(figure, file)


def bars(
    file: File,
    groups: Sequence[str],
    values: Mapping[str, Sequence[float]],
    x_label: str,
    y_label: str,
    title: str,
    *,
    stacked: bool = True,
    log: str = "",
) -> None:
    """A bar for every group: the named values on top of each other, or side by side."""
    bar_panels(file, [Bars("", x_label, y_label, groups, values)], title, stacked=stacked, log=log)


def bar_panels(
    file: File, plots: Sequence[Bars], title: str, *, stacked: bool = True, log: str = ""
) -> None:
    """The same side by side, with one legend."""
    figure, grid = _grid(len(plots), len(plots))
    names = list(dict.fromkeys(name for plot in plots for name in plot.values))
    shown: dict[str, Any] = {}
    for axes, plot in zip(grid, plots, strict=True):
        width = 0.7 if stacked else 0.8 / max(1, len(plot.values))
        base = [0.0] * len(plot.groups)
        for number, (name, heights) in enumerate(plot.values.items()):
            shift = 0.0 if stacked else (number - (len(plot.values) - 1) / 2) * width
            where = [i + shift for i in range(len(plot.groups))]
            look = {**_bar_style(names.index(name)), "bottom": base if stacked else 0.0}
            shown[name] = axes.bar(where, heights, width, label=name, **look)
            base = [low + high for low, high in zip(base, heights, strict=True)]
        axes.set_xticks(range(len(plot.groups)), plot.groups)
        _finish(axes, plot.x_label, plot.y_label, plot.title, log.replace("x", ""))
    figure.suptitle(title, fontsize=10)
    _legend(figure, shown)
    _save(figure, file)


def _grid(count: int, columns: int) -> tuple[Any, list[Any]]:
    """A figure and the axes of its plots."""
    from matplotlib.figure import Figure

    rows = -(-count // columns)
    size = (_WIDTH * columns, _HEIGHT * rows + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def _bar_style(number: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "hatch": _HATCHES[number % len(_HATCHES)],
        "edgecolor": "white",
    }


def _style(one: Series, names: list[str]) -> dict[str, Any]:
    number = names.index(one.name)
    if one.published:
        # No line: nothing was stated between the points.
        look = {"color": "black", "marker": _CROSSES[number % len(_CROSSES)], "linestyle": "none"}
        return {**look, "markersize": 8, "markeredgewidth": 1.6}
    colour = _COLOURS[number % len(_COLOURS)]
    return {
        "color": colour,
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "markersize": 5,
        "linewidth": 1.4,
        "markerfacecolor": "white" if one.estimated else colour,
    }


def _finish(
    axes: Any, x_label: str, y_label: str, title: str, log: str, *, whole: bool = False
) -> None:
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title, fontsize=9)
    if "x" in log:
        axes.set_xscale("log")
    elif whole:
        axes.xaxis.get_major_locator().set_params(integer=True)
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


def _save(figure: Any, file: File) -> None:
    if isinstance(file, Path):
        file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=_DPI, format=None if isinstance(file, Path) else "png")


# ------------------------------------------------------------- JSON and tables


def document(
    bench: str,
    parameters: dict[str, Any],
    points: Sequence[dict[str, Any]],
    *,
    published: Sequence[dict[str, Any]] = (),
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """What every measurement writes as JSON: its points, and all it takes to judge them."""
    return {
        "schema": SCHEMA,
        "bench": bench,
        "machine": machine(),
        "parameters": parameters,
        "points": list(points),
        "published": list(published),
        "notes": list(notes),
    }


def table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table whose first column is words and whose other columns are figures."""
    made = Table(title=title)
    for number, heading in enumerate(headings):
        made.add_column(heading, justify="right" if number else "left")
    for row in rows:
        made.add_row(*row)
    return made


def show(tables: Sequence[Table], notes: Sequence[str], console: Console | None = None) -> None:
    """Tables and what must be said about them."""
    console = console or Console(highlight=False)
    for each in tables:
        console.print(each)
    for note in notes:
        console.print(note, markup=False)


def seconds(value: float | None) -> str:
    """A time with three significant digits, in the unit that people would use."""
    if value is None:
        return "-"
    for size, unit in ((86400 * 2, "d"), (3600 * 2, "h"), (120, "min")):
        if value >= size:
            return f"{value / {'d': 86400, 'h': 3600, 'min': 60}[unit]:,.3g} {unit}"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


@cache
def _machine() -> dict[str, Any]:
    found: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _processor(),
        "cores": usable,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "code": _code(),
        "packages": found,
    }


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system and versions; no name of the machine or its user."""
    return dict(_machine())


def _code() -> str:
    """A fingerprint of all code that a measured value may depend on."""
    top = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for file in sorted(file for name in _CODE for file in (top / name).rglob("*.py")):
        path = file.relative_to(top)
        if path.parts[1:-1] != ("bench",) or path.stem not in _LOOKS:
            digest.update(f"{path}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
