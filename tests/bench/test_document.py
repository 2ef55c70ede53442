"""Documents say where they come from; their tables are data that any screen can draw."""

import io

import pytest
from rich.console import Console

from ppodc.bench import document
from tests.bench.look import check_document


def small(title="A title", cell="1 [2] (3)"):
    table = document.table(title, ("what", "value & unit"), [("first", cell), ("second", "")])
    return document.make("test", lambda _: [table], x=1, notes=["a [note] below"])


def test_a_document_says_where_it_comes_from():
    result = small()
    check_document(result, "test")
    assert result["x"] == 1
    assert result["tables"][0]["rows"] == [["first", "1 [2] (3)"], ["second", ""]]


def test_tables_are_made_from_the_figures():
    result = document.make("test", lambda d: [document.table("t", ("x",), [(str(d["x"]),)])], x=7)
    assert result["tables"][0]["rows"] == [["7"]]


def test_each_point_fills_a_row():
    points = [{"m": 6000, "took_s": 0.5, "sent": 2.5e6}, {"m": 10, "took_s": None, "sent": None}]
    row = "{m:,} | {took_s:time} | {sent:/1e6 .1f}"
    result = document.table_of("t", "m | time | MB", row, points)
    assert result["columns"] == ["m", "time", "MB"]
    assert result["rows"] == [["6,000", "500 ms", "2.5"], ["10", "-", "-"]]


def test_points_that_agree_are_one_row():
    points = [{"m": 1, "a": 2}, {"m": 2, "a": 3}, {"m": 1, "b": 4}]
    assert document.joined(points, "m") == [{"m": 1, "a": 2, "b": 4}, {"m": 2, "a": 3}]


def test_nothing_in_a_text_is_taken_for_markup():
    into = io.StringIO()
    document.show(small("A [bold]title[/]"), Console(file=into, width=100))
    shown = into.getvalue()
    for text in ("A [bold]title[/]", "value & unit", "1 [2] (3)", "a [note] below"):
        assert text in shown, text


def test_no_figure_is_cut_off_where_no_terminal_is(capsys):
    columns = [f"a long name {number}" for number in range(9)]
    wide = document.table("wide", columns, [["123,456,789"] * 9])
    document.show({"tables": [wide], "notes": []})
    assert capsys.readouterr().out.count("123,456,789") == 9


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"), (0.0123, "12.3 ms"), (1.5, "1.5 s"), (119.0, "119 s"), (600.0, "10 min"),
        (8 * 3600.0, "8 h"), (86400.0 * 9, "9 d"),
    ],
)  # fmt: skip
def test_times_have_the_unit_people_would_use(value, shown):
    assert document.seconds(value) == shown


def test_counts_and_short_numbers():
    assert (document.plural(1, "pair"), document.plural(1200, "pair")) == ("1 pair", "1,200 pairs")
    assert [document.digits(x) for x in (0.12345, 12.345, 12345.6)] == ["0.123", "12.3", "12,346"]
