"""Plots that a black and white printer can print."""

import io

import pytest

from ppodc.bench import plot
from ppodc.bench.plot import Bars, Panel, Series
from ppodc.errors import InputError
from tests.bench.look import check_plot

LINES = [
    Series("shares", [1, 2, 4], [1.0, 2.0, 4.0]),
    Series("paillier", [1, 2, 4], [10.0, 20.0, 40.0], estimated=True),
    Series("published", [4], [30.0], published=True),
]


@pytest.mark.parametrize("log", ["", "x", "y", "xy"])
def test_lines(tmp_path, log):
    file = tmp_path / "new" / "lines.png"
    panel = Panel("", "records m", "seconds per iteration", LINES)
    plot.lines(file, [panel], "A title", log=log)
    check_plot(file)


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(InputError, match="nothing to draw"):
        plot.lines(tmp_path / "none.png", [], "A title", columns=0)


def test_panels_and_bars(tmp_path):
    panels = [Panel(f"({i})", "x", "y", LINES) for i in range(3)]
    plot.lines(tmp_path / "panels.png", panels, "title", columns=2)
    check_plot(tmp_path / "panels.png")
    values = {"SBD": [1.0, 2.0], "SMIN_k": [3.0, 4.0]}
    for stacked in (True, False):
        file = tmp_path / f"bars-{stacked}.png"
        told = {"published": {"4": 5.0}}
        plot.bars(file, [Bars("", "k", "%", ["2", "4"], values, told)], "title", stacked=stacked)
        check_plot(file)


def test_a_plot_can_go_into_memory():
    into = io.BytesIO()
    plot.lines(into, [Panel("", "x", "y", LINES)], "title")
    assert into.getvalue().startswith(b"\x89PNG")


def test_series_differ_without_colour():
    names = [f"series {i}" for i in range(8)]
    looks = [plot._style(Series(name, [1, 2], [1, 2]), names) for name in names]
    assert len({(str(look["marker"]), str(look["linestyle"])) for look in looks}) == 8
    assert len({plot._bar_style(i)["hatch"] for i in range(8)}) == 8
    hollow = plot._style(Series("series 0", [1], [1], estimated=True), names)
    assert hollow["markerfacecolor"] != looks[0]["markerfacecolor"]
