"""`ppodc bench pairs` on a real platform: figures of every worker, kept apart from wall time."""

from client import bench_pairs
from ppodc.bench.points import Points
from tests.bench.look import check_document, check_plot


def test_cpu_critical_path_and_wall_time_of_a_small_job(tmp_path, capsys):
    points = Points(tmp_path / "points.jsonl")
    shape = {"m": 200, "l": 2, "k": 2, "iterations": 3, "points": points}
    result = bench_pairs.run((2,), **shape)
    check_document(result, "pairs")
    (point,) = result["points"]
    assert point["exact"]
    assert point["pairs"] == len(point["cpu_c1_s"]) == len(point["cpu_c2_s"]) == 2
    busiest = max(*point["cpu_c1_s"], *point["cpu_c2_s"])
    assert point["critical_s"] == busiest <= point["turns_s"]
    assert point["wall_s"] > 0
    assert point["speedup_wall"] == 1
    bench_pairs.show(result)
    said = capsys.readouterr().out
    assert "2,676 min" in said
    assert "cores of this machine" in " ".join(said.split())
    bench_pairs.plot(result, tmp_path / "pairs.png")
    check_plot(tmp_path / "pairs.png")
    again = bench_pairs.run((2,), **shape)
    assert again["points"] == result["points"], "measured once, then from the file"
