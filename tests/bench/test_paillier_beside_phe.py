"""Paillier beside phe: every case is measured; a goal is met only beyond the noise."""

import pytest

from ppodc.bench.kmeans import paillier
from tests.bench.look import check_document


def test_every_case_is_measured_and_shown():
    result = paillier.run(key_bits=256, seconds=0.2)
    shown = check_document(result, "paillier")
    assert "256 bits" in shown
    assert "decrypt" in shown
    assert len(result["cases"]) == 10
    assert all(case["seconds"] > 0 and case["phe_seconds"] > 0 for case in result["cases"])
    for case in result["cases"]:
        low, high = case["ratio_quartiles"]
        assert low <= case["ratio"] <= high


@pytest.mark.parametrize(
    ("quartiles", "goal", "verdict"),
    [
        ([12, 14], 10, "10 met"),
        ([0.97, 1.03], 1, "1 level"),
        ([8, 9], 10, "10 missed"),
        ([1, 2], None, ""),
    ],
)
def test_a_goal_is_met_only_beyond_the_noise(quartiles, goal, verdict):
    case = {"goal": goal, "ratio_quartiles": quartiles}
    assert paillier._verdict(case) == verdict
