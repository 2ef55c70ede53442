"""The benchmark of an iteration: real processes behind CURVE, every figure of its contract."""

import pytest

from ppodc.bench import iteration
from ppodc.errors import InputError

KEYS = {
    "suite", "m", "l", "k", "pairs", "iterations", "offline_s", "online_s", "total_s", "cpu_c1_s",
    "cpu_c2_s", "bytes_c1_to_c2", "bytes_c2_to_c1", "rounds", "peak_rss_mb", "exact", "steps",
}  # fmt: skip


@pytest.mark.parametrize(("suite", "pairs"), [("shares", 2), ("paillier", 1)])
def test_figures_of_a_small_job(suite, pairs, capsys):
    result = iteration.run(suite, m=24, l=2, k=2, pairs=pairs, iterations=2, ub=10, key_bits=512)
    assert result.keys() >= KEYS
    assert result["exact"] is True
    assert result["bytes_c1_to_c2"] > 0
    assert result["total_s"] == result["offline_s"] + result["online_s"]
    if suite == "shares":
        phases = {step["phase"] for step in result["steps"]}
        assert phases == {"offline", "online"}
    iteration.show(result)
    assert "exact" in capsys.readouterr().out


def test_an_unknown_suite_is_refused():
    with pytest.raises(InputError):
        iteration.run("abacus")
