"""Comparing between two processes: every kind of case is exact, and a wrong bit would be seen."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from ppodc.bench.linkage import pairs
from ppodc.bench.linkage.pairs import adult_case, compare, edit_case, numbers_case, parts_of
from ppodc.bench.points import Points
from ppodc.cli import app
from tests.bench.test_linkage import people  # noqa: F401 - a fixture


def test_strings_of_secret_lengths_are_exact_and_the_command_shows_what_is_kept(tmp_path):
    costs = compare(edit_case(9, 5, 1, secret=True), lambda _: None)
    assert costs["exact"]
    assert costs["pairs"] == 81
    assert costs["matches"] > 0
    assert costs["bytes"] > 0

    points, shown = Points(tmp_path / "points.jsonl"), tmp_path / "x.json"
    names = ("numbers", "edit 1", "edit 2", "secret 1", "secret 2")
    for name in names:
        key = {"bench": "linkage-pairs", "case": name, "side": 9, "strings": 9, "m": 6000}
        points.add(key, {"case": f"kept {name}", **costs})
    words = ["--side", "9", "--strings", "9", "--points", str(points.path), "--json", str(shown)]
    done = CliRunner().invoke(app, ["bench", "linkage-pairs", *words])
    assert done.exit_code == 0, done.output
    (table,) = json.loads(shown.read_text())["tables"]
    assert [row[0] for row in table["rows"]] == [f"kept {name}" for name in names]
    assert {row[3] for row in table["rows"]} == {"yes"}


def test_a_wrong_bit_is_seen():
    case = numbers_case(8)
    wrong = [np.array(bits) for bits in case.expected]
    wrong[0][0, 1] ^= True
    assert not compare(replace(case, expected=wrong), lambda _: None)["exact"]


@pytest.mark.parametrize("method", ["none", "adtree", "adtree-shared"])
def test_adult_in_cells(people, method):  # noqa: F811
    case = adult_case(people, 40, method)
    assert len(case.rows[0]) >= 40
    assert sum(bits.sum() for bits in case.expected) >= 20
    if method == "adtree-shared":
        assert compare(case, lambda _: None)["exact"]


def test_worker_pairs_share_the_blocks_and_each_is_exact(people, tmp_path):  # noqa: F811
    case = adult_case(people, 40, "adtree")
    parts = parts_of(case, 3)
    assert 1 < len(parts) <= 3
    listed = [block for part in parts for block in part.order.blocks]
    assert sorted(map(str, listed)) == sorted(map(str, case.order.blocks))
    cost = pairs._parallel(lambda: case, 2, lambda _: None)
    assert cost["exact"]
    assert cost["compared"] == sum(bits.size for bits in case.expected)
    result = {"points": [], "parallel": [cost], "parameters": {"m": 40}}
    assert pairs._tables(result)[1]["rows"][-1][-1] == "24.00"
    pairs.draw(result, tmp_path / "pairs.png")
    assert (tmp_path / "pairs.png").stat().st_size > 1000
