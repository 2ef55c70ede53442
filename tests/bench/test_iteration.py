"""The benchmark of an iteration: real processes behind CURVE, every figure of its contract."""

from dataclasses import replace

import numpy as np
import pytest

from ppodc.bench.kmeans import iteration, start
from ppodc.bench.kmeans.iteration import Run, random_records
from ppodc.bench.network_presets import Link
from ppodc.errors import InputError, PpodcError
from tests.bench.look import check_document

KEYS = {
    "suite", "m", "l", "k", "pairs", "iterations", "offline_s", "online_s", "total_s", "cpu_c1_s",
    "cpu_c2_s", "bytes_c1_to_c2", "bytes_c2_to_c1", "rounds", "peak_rss_mb", "exact", "steps",
}  # fmt: skip


@pytest.mark.parametrize(("suite", "pairs"), [("shares", 2), ("paillier", 1)])
def test_figures_of_a_small_job(suite, pairs):
    result = iteration.run(
        suite, m=24, l=2, k=2, pairs=pairs, iterations=2,
        link=None, gbit=None, latency_ms=None, key_bits=512,
    )  # fmt: skip
    shown = check_document(result, "iteration")
    assert "every iteration exact" in shown
    assert result.keys() >= KEYS
    assert result["exact"] is True
    assert result["bytes_c1_to_c2"] > 0
    assert result["total_s"] == result["offline_s"] + result["online_s"]
    if suite == "shares":
        phases = {step["phase"] for step in result["steps"]}
        assert phases == {"offline", "online"}


RECORDS = np.random.default_rng(2).integers(0, 11, (40, 2))
COLD = Run(k=2, iterations=3, warm_up=0, ub=10, key_bits=512)
FAR = Link("far", 1, 5, 0)


def test_iterations_to_warm_up_are_checked_but_not_counted():
    """Were they counted with one divisor or the other, costs of the two runs would differ by half.

    Over a link that is slow in both, so that a busy machine does not change what is sent.
    """
    said = []
    far = replace(COLD, link=FAR)
    once = replace(far, iterations=1, warm_up=2).over(RECORDS)
    twice = replace(far, iterations=2, warm_up=None).over(RECORDS, said.append)
    assert (once["iterations"], twice["iterations"]) == (1, 2)
    assert said[-3:] == ["warm-up", "iteration 1 of 2", "iteration 2 of 2"]
    each = once["bytes_c1_to_c2"]
    assert twice["bytes_c1_to_c2"] == pytest.approx(each, rel=0.02)
    assert sum(step["bytes"] for step in twice["steps"]) == pytest.approx(each, rel=0.02)


def test_a_job_that_converges_at_once_is_measured_all_the_same():
    records = np.repeat(np.array([[0, 0], [9, 9]]), 4, axis=0)
    result = Run(k=2, iterations=3, warm_up=5, ub=10, key_bits=512).over(records)
    assert (result["iterations"], result["exact"], result["converged"]) == (1, True, True)


def test_an_unknown_suite_is_refused():
    with pytest.raises(InputError, match="no suite"):
        Run("abacus").over(random_records(4, 2))


def test_a_job_over_a_slow_link_is_exact_and_takes_bytes_for_rounds():
    """As many of both where a busy machine made the other link slow as well."""
    cold, over = COLD.over(RECORDS), replace(COLD, link=FAR).exact(RECORDS)
    assert over["bytes_c1_to_c2"] >= cold["bytes_c1_to_c2"]
    assert over["rounds"] <= cold["rounds"]
    assert "5 ms one way" in over["link"]
    assert cold["link"] is None


def test_figures_of_a_wrong_result_are_refused(monkeypatch):
    monkeypatch.setattr(Run, "over", lambda *_: {"exact": False})
    with pytest.raises(PpodcError, match="another result"):
        Run().exact(random_records(4, 2))


def test_a_start_beside_an_iteration():
    result = start.run(
        m=24, l=2, k=[2], pairs=1, iterations=1,
        link=None, gbit=None, latency_ms=None, key_bits=512,
    )  # fmt: skip
    shown = check_document(result, "start")
    assert "A start by k-means++" in shown
    (point,) = result["points"]
    assert point["first"]["exact"]
    assert point["second"]["exact"]
    assert min(point["first"]["bytes"], point["second"]["bytes"]) > 0
