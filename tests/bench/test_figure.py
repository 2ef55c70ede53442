"""Plots that a black and white printer can print, tables and times for people."""

import io

import pytest

from ppodc.bench import figure
from ppodc.bench.figure import Panel, Series
from tests.bench.look import check_document, check_plot

LINES = [
    Series("shares", [1, 2, 4], [1.0, 2.0, 4.0]),
    Series("paillier", [1, 2, 4], [10.0, 20.0, 40.0], estimated=True),
    Series("published", [4], [30.0], published=True),
]


@pytest.mark.parametrize("log", ["", "x", "y", "xy"])
def test_lines(tmp_path, log):
    file = tmp_path / "new" / "lines.png"
    figure.lines(file, LINES, "records m", "seconds per iteration", "A title", log=log)
    check_plot(file)


def test_panels_and_bars(tmp_path):
    plots = [Panel(f"({i})", "x", "y", LINES) for i in range(3)]
    figure.panels(tmp_path / "panels.png", plots, "title", columns=2)
    check_plot(tmp_path / "panels.png")
    values = {"SBD": [1.0, 2.0], "SMIN_k": [3.0, 4.0]}
    for stacked in (True, False):
        file = tmp_path / f"bars-{stacked}.png"
        figure.bars(file, ["2", "4"], values, "k", "%", "title", stacked=stacked)
        check_plot(file)


def test_a_plot_can_go_into_memory():
    into = io.BytesIO()
    figure.lines(into, LINES, "x", "y", "title")
    assert into.getvalue().startswith(b"\x89PNG")


def test_series_differ_without_colour():
    names = [f"series {i}" for i in range(8)]
    looks = [figure._style(Series(name, [1, 2], [1, 2]), names) for name in names]
    assert len({(str(look["marker"]), str(look["linestyle"])) for look in looks}) == 8
    assert len({figure._bar_style(i)["hatch"] for i in range(8)}) == 8
    hollow = figure._style(Series("series 0", [1], [1], estimated=True), names)
    assert hollow["markerfacecolor"] != looks[0]["markerfacecolor"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"), (0.0123, "12.3 ms"), (1.5, "1.5 s"), (119.0, "119 s"), (600.0, "10 min"),
        (8 * 3600.0, "8 h"), (86400.0 * 9, "9 d"),
    ],
)  # fmt: skip
def test_times_have_the_unit_people_would_use(value, shown):
    assert figure.seconds(value) == shown


def test_a_document_says_where_it_comes_from():
    check_document(figure.document("test", {"m": 1}, [{"x": 1}], notes=["a note"]), "test")
