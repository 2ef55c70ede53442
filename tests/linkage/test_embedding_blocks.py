"""Blocks `embedding`: cells of texts that a gateway believes, and what they show and cost."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage import estimate, preview
from ppodc.linkage.blocks import embedding_blocks, embedding_tree
from ppodc.linkage.blocks.cells import pairs_compared
from ppodc.linkage.blocks.covering import check_cuts
from ppodc.linkage.owner import owner_side
from ppodc.privacy.cell_noise import ExactNoise
from ppodc.spec import Spec
from tests.linkage.test_cells import Accountant, words

COST = {"epsilon": 8, "delta": "1/10000"}


def spec_of(texts=1, **blocks) -> Spec:
    columns = [{"name": f"t{n}", "text": "words", "longest": 12} for n in range(texts)]
    job = {"kind": "linkage", "rule": "edit", "attributes": texts, "limit": 1, "max_links": 2}
    blocks = {"blocks": "embedding", **COST, **blocks}
    return Spec.from_dict({"name": "d", "schema": {"ub": 100, "columns": columns},
                           "job": {**job, **blocks}})  # fmt: skip


def encoded(spec: Spec, texts):
    return owner_side(spec).encode(pd.DataFrame({"t0": texts}, dtype=object))


@pytest.mark.parametrize("lengths", [[], [3, 6]])
def test_cells_lose_no_match_save_pairs_and_are_believed(lengths):
    spec = spec_of(lengths=lengths)
    space = spec.job.space(spec.schema)
    first, second = words(900, 1), words(900, 2)
    second[:100] = [text[1:] for text in first[:100]]
    sides = [
        space.partition(encoded(spec, texts), None, ExactNoise(SecureRandom.public(seed)))
        for seed, texts in enumerate((first, second))
    ]
    for side in sides:
        counts = side.cell_counts
        outline = space.outline(counts)
        spec.form.check_outline(outline, counts.rows)
        assert len(counts.boxes) > 4
        assert np.array_equal(space.counts(counts.rows, outline).boxes, counts.boxes)
        for wrong in (outline[1:], np.concatenate([outline, outline[:1]])):
            with pytest.raises(InputError, match="public domain"):
                spec.form.check_outline(wrong, int(wrong[:, 0].sum()))
    meets = space.pruning.candidates(sides[0].boxes, sides[1].boxes)
    assert all(meets[sides[0].cell[i], sides[1].cell[i]] for i in range(100))
    assert pairs_compared(sides[0].cell_counts, sides[1].cell_counts, space.pruning) < 0.9 * 900**2


def test_a_tree_spends_what_its_spec_says():
    """Half of epsilon on every path: a replaced record touches two of them."""
    for lengths in ([], [3, 6]):
        spec = spec_of(lengths=lengths)
        book = Accountant()
        tree = spec.job.space(spec.schema).tree
        points = spec.job.space(spec.schema).points(encoded(spec, words(600, 3)))
        embedding_tree.build(points, tree, book)
        assert spec.job.blocking.cost == (Fraction(8), Fraction(1, 10_000))
        assert spec.form.privacy().guaranteed.epsilon == 8
        assert book.medians
        leaf, counted = tree.leaf, tree.epsilon * tree.length_share / 2
        assert all(leaf <= left <= Fraction(4) - counted for left in book.leaves)


def test_what_does_not_fit_is_refused(monkeypatch):
    for change, words_ in (
        ({"references": 11}, "at least 12"),
        ({"references": 0}, "references"),
        ({"lengths": [3, 3]}, "rise"),
        ({"lengths": 3}, "list"),
        ({"lengths": [0]}, "lengths"),
        ({"eta": 0}, "eta"),
        ({"texts": 8, "lengths": [2, 4, 6, 8]}, "parts"),
    ):
        with pytest.raises(InputError, match=words_):
            spec_of(**change)
    spec = spec_of()
    monkeypatch.setattr(embedding_blocks, "MOST_LEAVES", 3)
    with pytest.raises(InputError, match="may have 1 to 3 cells"):
        spec.job.space(spec.schema).partition(encoded(spec, words(900, 1)), None, ExactNoise())


def test_three_texts_have_an_estimate_where_lengths_are_too_many():
    spec = spec_of(3)
    told = estimate.estimate(spec, (3_000, 3_000))
    assert 0 < told.reduction < 1
    assert told.dummies > 0
    assert told.epsilon == 8
    texts = {f"t{n}": {"text": "words", "longest": 39} for n in range(3)}
    columns = [{"name": name, **text} for name, text in texts.items()]
    job = {"kind": "linkage", "rule": "edit", "attributes": 3, "limit": 1}
    for blocks, fits in (("length", False), ("embedding", True)):
        table = {"name": "d", "schema": {"ub": 1, "columns": columns},
                 "job": {**job, "blocks": blocks, **COST}}  # fmt: skip
        if fits:
            Spec.from_dict(table)
        else:
            with pytest.raises(InputError, match="cells"):
                Spec.from_dict(table)


def test_an_owner_sees_its_cells_before_it_sends_them():
    spec = spec_of()
    told = preview.preview(spec, pd.DataFrame({"t0": words(400, 1)}, dtype=object))
    assert told.cells > 1
    assert told.epsilon == 8
    assert told.dummies > 0
    assert "distances of texts to public ones" in " ".join(spec.job.describe())


def test_cuts_anywhere_are_a_tree_and_a_pinwheel_is_none():
    pinwheel = [[0, 2, 0, 1], [2, 3, 0, 2], [1, 3, 2, 3], [0, 1, 1, 3], [1, 2, 1, 2]]
    domain = np.array([[0, 3], [0, 3]])
    with pytest.raises(InputError, match="public domain"):
        check_cuts(np.array(pinwheel).reshape(-1, 2, 2), domain)
    uneven = np.array([[0, 1, 0, 3], [1, 3, 0, 2], [1, 3, 2, 3]]).reshape(-1, 2, 2)
    check_cuts(uneven, domain)
    check_cuts(uneven[::-1], domain)
    for wrong in (uneven[1:], np.concatenate([uneven, uneven[:1]])):
        with pytest.raises(InputError, match="public domain"):
            check_cuts(wrong, domain)
