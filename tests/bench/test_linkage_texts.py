"""Texts compared between two processes: names in cells and mixed fields, every bit as plaintext."""

from fractions import Fraction

import numpy as np
import pytest

from ppodc.bench.linkage import texts
from ppodc.bench.linkage.pairs import compare
from ppodc.bench.network_presets import Link
from ppodc.bench.points import Points
from ppodc.linkage.blocks.adtree import Budget
from ppodc.linkage.symbols import levenshtein
from tests.bench.test_linkage import census  # noqa: F401 - a fixture


@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_plaintext_of_all_pairs_at_once_is_the_edit_distance(most):
    random = np.random.default_rng(most)
    for a, b in ((0, 0), (0, 1), (3, 3), (4, 3), (3, 5), (6, 6)):
        xs, ys = (random.integers(0, 3, (12, n)).astype(np.uint8) for n in (a, b))
        near = [[levenshtein(x, y) <= most for y in ys.tolist()] for x in xs.tolist()]
        assert texts.within(xs, ys, most).tolist() == near


def test_names_in_cells_of_lengths(census, monkeypatch):  # noqa: F811
    monkeypatch.setattr(texts, "LENGTH", 7)
    monkeypatch.setattr(texts, "BUDGET", Budget(Fraction(4), Fraction(1, 100)))
    case, saved = texts.names_case(census, 30, 1)
    assert saved["recall"] == 1
    costs = compare(case, lambda _: None)
    assert costs["exact"]
    assert costs["matches"] >= 10
    assert costs["pairs"] == saved["pairs"] > 400


def test_fields_over_a_link(monkeypatch):
    over = Link("test", 1, 0.1, 0.0)
    monkeypatch.setattr(texts.network_presets, "imitated", lambda *_: over)
    document = texts.run(
        None, people=30, theta=1, side=12, link="lan", gbit=None, latency_ms=None,
        points=Points(None),
    )  # fmt: skip
    ((name, link, pairs, _, _, matches, exact, *_),) = document["tables"][0]["rows"]
    assert (name, link, pairs, exact) == ("fields, 12 x 12", "1 Gbit/s, 0.1 ms", "144", "yes")
    assert int(matches) >= 3
