"""`ppodc.rules`: every rule and all blocks in one place, as the spec file has them."""

from fractions import Fraction

import pytest

import client
from ppodc import rules
from ppodc.linkage import blocks as linkage_blocks
from ppodc.linkage import rules as linkage_rules
from ppodc.linkage.rules import Dice, EditDistance, SquaredDistance

COST = {"epsilon": 1, "delta": 1e-6}


def test_both_packages_have_them():
    assert client.rules is rules


@pytest.mark.parametrize(
    ("made", "same"),
    [
        (rules.sse([1, 2], limit=7), SquaredDistance((1, 2), 7)),
        (rules.edit_distance(2, limit=1), EditDistance(2, 1)),
        (rules.dice(512, threshold=0.8), Dice(512, Fraction(4, 5))),
        (rules.fields([rules.exact("a")], threshold=1), rules.all_of([rules.exact("a")])),
    ],
)
def test_every_rule_reads_back_from_its_table(made, same):
    assert made == same
    assert linkage_rules.from_dict(made.to_dict()) == made


@pytest.mark.parametrize(
    ("blocks", "kind"),
    [
        (rules.by_key("year", rules.key("name", first=2), **COST), "key"),
        (rules.by_length(shortest=2, **COST), "length"),
        (rules.by_embedding(lengths=(3, 5), **COST), "embedding"),
        (rules.by_embedding(references=99, **COST), "embedding"),
        (rules.adtree(**COST), "adtree"),
        (rules.adtree_shared("owner1", eta="1/20", **COST), "adtree-shared"),
    ],
)
def test_all_blocks_read_back_from_their_table(blocks, kind):
    assert blocks.kind == kind
    assert linkage_blocks.from_dict(blocks.to_dict()) == blocks
