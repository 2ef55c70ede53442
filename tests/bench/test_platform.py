"""`ppodc bench pairs` and `platform` on one real platform, driven by nothing but the command."""

import contextlib

import pytest

from ppodc.bench import platform
from ppodc.bench.kmeans import pairs
from ppodc.bench.points import Points
from ppodc.errors import PpodcError
from ppodc.local.platform import LocalPlatform
from tests.bench.look import check_document, check_plot


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "platform"
    with LocalPlatform(folder, owners=3, pairs=2) as clouds:
        yield clouds


@pytest.fixture
def one_platform(running, monkeypatch):
    """Both measurements start a platform; here they share one, which saves its start."""
    for module in (pairs, platform):
        started = contextlib.nullcontext(running)
        monkeypatch.setattr(module, "LocalPlatform", lambda *_, _it=started, **__: _it)


def test_cpu_critical_path_and_wall_time_of_a_small_job(one_platform, tmp_path):
    points = Points(tmp_path / "points.jsonl")
    shape = {"m": 200, "l": 2, "k": 2, "suite": "shares", "iterations": 3, "deployment": None}
    result = pairs.run((2,), **shape, points=points)
    shown = check_document(result, "pairs")
    assert "2,676 min" in shown
    assert "cores of this machine" in shown
    (point,) = result["points"]
    assert point["exact"]
    assert point["pairs"] == len(point["cpu_c1_s"]) == len(point["cpu_c2_s"]) == 2
    busiest = max(*point["cpu_c1_s"], *point["cpu_c2_s"])
    assert point["critical_s"] == busiest <= point["turns_s"]
    assert point["wall_s"] > 0
    assert point["speedup_wall"] == 1
    pairs.draw(result, tmp_path / "pairs.png")
    check_plot(tmp_path / "pairs.png")
    again = pairs.run((2,), **shape, points=points)
    assert again["points"] == result["points"], "measured once, then from the file"


def test_a_job_and_a_crowd_of_owners(one_platform):
    result = platform.run(60, 2, 2, pairs=2, iterations=4, owners=3, suite="shares")
    shown = check_document(result, "platform")
    assert "orchestration" in shown
    assert 0 < result["protocol_s"] <= result["iteration_s"]
    assert result["memory_late_mb"] > 100, "Ray alone has more"
    assert (result["uploaded_rows"], result["upload_errors"]) == (3000, 0)
    assert result["upload_clouds_cpu_s"] >= 0, "the system counts in hundredths of a second"


def test_a_refused_upload_says_why_in_the_words_of_the_command(running, tmp_path):
    spec = platform.create(running, tmp_path, 2, platform.make_job(2, 1))
    table = tmp_path / "wrong.csv"
    table.write_text("1,2\n3,4000\n")
    with pytest.raises(PpodcError, match="above 1000"):
        platform.upload(running, spec, "owner1", table)


def test_growth_is_between_the_second_and_the_last_fifth():
    growth = platform._growth([9, 9, 1, 1, 5, 5, 5, 5, 2, 4])
    assert (growth["memory_early_mb"], growth["memory_late_mb"]) == (1e-6, 3e-6)


@pytest.mark.parametrize("samples", [[3], [3, 4], [3, 5, 5, 4]])
def test_a_job_that_is_over_at_once_has_its_first_and_last_sample(samples):
    growth = platform._growth(samples)
    assert growth["memory_samples"] == len(samples)
    assert growth["memory_early_mb"] == samples[0] / 1e6
    assert growth["memory_late_mb"] == samples[-1] / 1e6
