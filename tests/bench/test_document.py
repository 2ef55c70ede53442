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


def test_nothing_in_a_text_is_taken_for_markup():
    into = io.StringIO()
    document.show(small("A [bold]title[/]"), Console(file=into, width=100))
    shown = into.getvalue()
    for text in ("A [bold]title[/]", "value & unit", "1 [2] (3)", "a [note] below"):
        assert text in shown, text


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
