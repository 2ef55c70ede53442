"""Each measurement on a tiny job: its figures, its document, its plot; and resuming."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from ppodc.bench.kmeans import estimate, grids, primitives, published, share_primitives
from ppodc.bench.kmeans.paillier_steps import make_case
from ppodc.bench.points import Points, measure
from ppodc.cli import app
from ppodc.errors import InputError
from tests.bench.look import check_document, check_plot

MEASURED = Path(__file__).parents[2] / "docs" / "measured"
KEY_BITS = 512
TINY = {"suite": None, "key_bits": KEY_BITS, "records": 2, "iterations": 1}


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """One file for all: what one measurement has on file, the next one takes from there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(share_primitives, "_KEY_BITS", KEY_BITS)
        yield Points(tmp_path_factory.mktemp("points") / "points.jsonl")


def test_sweep_has_every_case_of_the_three_plots_once():
    cases = [tuple(c.values()) for c in grids.cases({"m": [1, 2, 3], "k": [4, 5], "l": [6, 7]})]
    over_m = [(m, k, 6) for m in (1, 2, 3) for k in (4, 5)] + [(m, 4, 7) for m in (1, 2, 3)]
    over_k = [(2, 5, 7)]
    assert cases == sorted(over_m + over_k)


def test_sweep_measures_shares_and_estimates_paillier(points, tmp_path):
    result = grids.sweep(m=(40,), k=(2,), l=(2,), points=points, **TINY)
    assert "estimated" in check_document(result, "sweep")
    cases = [(p["suite"], p["m"], p["k"], p["l"]) for p in result["points"]]
    assert cases == [("shares", 40, 2, 2), ("paillier", 40, 2, 2)]
    for point in result["points"]:
        assert point["estimated"] == (point["suite"] == "paillier")
        assert point["online_s"] > 0
        assert point["suite"] == "paillier" or point["exact"]
    grids.draw_sweep(result, tmp_path / "sweep.png")
    check_plot(tmp_path / "sweep.png")


def test_breakdown_parts_add_up(points, tmp_path):
    result = grids.breakdown(k=(2,), m=40, l=2, points=points, **TINY)
    check_document(result, "breakdown")
    assert [(p["suite"], p["k"]) for p in result["points"]] == [("shares", 2), ("paillier", 2)]
    for point in result["points"]:
        assert sum(point["parts"].values()) == pytest.approx(1)
        assert 0 < point["comparing"] < 1
        assert ("SBD" in point["parts"]) == (point["suite"] == "paillier")
    assert result["published"] == [], "published for 10 attributes, not for 2"
    other = {**result["points"][0], "k": 3}
    published = {"points": [*result["points"], other], "published": [{"k": 2, "comparing": 0.85}]}
    first, _ = grids._breakdown_tables({**result, **published})
    place = first["columns"].index("published")
    assert [row[place] for row in first["rows"]] == ["85%", ""], "published for k = 2 only"
    grids.draw_breakdown(result, tmp_path / "breakdown.png")
    check_plot(tmp_path / "breakdown.png")


@pytest.mark.parametrize("name", ["sweep_paillier", "breakdown"])
def test_stored_figures_are_drawn_beside_published_values(name, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(grids.plot, "lines", lambda _file, panels, *_, **__: shown.extend(panels))
    monkeypatch.setattr(grids.plot, "bars", lambda _file, panels, *_: shown.extend(panels))
    result = json.loads((MEASURED / f"{name}.json").read_text())
    if name == "breakdown":
        grids.draw_breakdown(result, tmp_path / "x.png")
        assert [list(b.published.values()) for b in shown] == [[{"2": 85.0, "8": 95.0}]] * 2
        return
    grids.draw_sweep(result, tmp_path / "x.png")
    found = [[s.y for s in panel.series if s.published] for panel in shown]
    assert found == [[[337], [2676]], [[337], [2676]], []], "over m, and nothing at m = 6,000"


def test_primitives_of_both_suites_beside_the_table(points, tmp_path, monkeypatch):
    monkeypatch.setattr(published, "SHAPE", {"l": 2, "k": 2})
    result = primitives.run(m=40, l=2, k=2, points=points, **TINY)
    assert "33,486" in check_document(result, "primitives"), "the published SMIN_k"
    by_suite = {
        suite: {(p["primitive"], p["mode"]) for p in result["points"] if p["suite"] == suite}
        for suite in ("shares", "paillier")
    }
    names = ("SMP", "SSED_OP", "SSED_OP with scale", "SBD", "SMIN_k", "record")
    modes = ("online+offline", "online", "pipelined")
    assert by_suite["paillier"] == {(name, mode) for name in names for mode in modes}
    three = ("SMP", "SSED_OP", "SBD + SMIN_k")
    assert by_suite["shares"] == {(name, mode) for name in three for mode in modes[:2]}
    assert len(result["stages"]) == 3
    primitives.draw(result, tmp_path / "primitives.png")
    check_plot(tmp_path / "primitives.png")


def test_every_second_of_a_step_goes_to_one_primitive(points):
    (cost,) = measure("test", [share_primitives.task(40, 2, 2, 1)], points)
    for phase in ("offline", "online"):
        steps = sum(step["wall_s"] for step in cost["steps"] if step["phase"] == phase)
        parts = sum(times[f"{phase}_s"] for times in cost["primitives"].values())
        assert parts == pytest.approx(steps)
    assert cost["primitives"]["SBD + SMIN_k"]["offline_s"] > 0


INTERRUPTED = """
import os, signal
from ppodc.bench.points import Points
from ppodc.cli import main
keep = Points.add
def keep_one(*arguments):
    kept = keep(*arguments)
    os.kill(os.getpid(), signal.SIGINT)
    return kept
Points.add = keep_one
main()
"""


def test_modes_go_on_after_an_interrupt(tmp_path):
    file, figures, drawn = (tmp_path / name for name in ("points.jsonl", "out.json", "out.png"))
    arguments = ["bench", "modes", "--m", "40", "--l", "2", "--k", "2", "--key-bits",
                 str(KEY_BITS), "--records", "4", "--points", str(file)]  # fmt: skip
    stopped = subprocess.run([sys.executable, "-c", INTERRUPTED, *arguments], check=False)
    assert stopped.returncode == 130
    before = file.read_text().splitlines()
    assert len(before) == 1
    more = ["--json", str(figures), "--plot", str(drawn)]
    done = CliRunner().invoke(app, [*arguments, *more])
    assert done.exit_code == 0, done.output
    assert file.read_text().splitlines()[: len(before)] == before
    assert len(file.read_text().splitlines()) == 3
    result = json.loads(figures.read_text())
    check_document(result, "modes")
    modes = [point["mode"] for point in result["points"]]
    assert modes == ["online+offline", "online", "pipelined"]
    assert all(point["estimated"] for point in result["points"])
    check_plot(drawn)


@pytest.mark.parametrize("bad", ["two", "1,,2", "0,4", ""])
def test_a_list_that_is_none_is_refused(bad):
    done = CliRunner().invoke(app, ["bench", "modes", "--m", bad])
    assert done.exit_code != 0
    said = " ".join(done.output.replace("│", " ").split())
    assert "such as 2,4,8" in said or "at least 1" in said


@pytest.mark.parametrize(("m", "l", "k"), [(3, 2, 4), (3, 2, 0), (3, 2, 1), (3, 0, 2)])
def test_a_job_that_cannot_be_is_refused_by_the_paillier_benches_too(m, l, k):
    with pytest.raises(InputError, match="clusters"):
        grids.modes([m], l=l, k=k, key_bits=512, records=2, points=Points())


def test_fewer_records_than_asked_for_are_divided_by_their_number(monkeypatch):
    """A job of 3 records has no 8 to measure: the time per record is a third, not an eighth."""
    took = {name: SimpleNamespace(seconds=3.0) for name in ("record", *estimate.ONCE)}
    monkeypatch.setattr(estimate, "measure", lambda *_, **__: took)
    task = estimate.Estimate(3, 2, 2, "online", 512, 8).task(split=False)
    point = task.work(lambda _: None)
    assert point["per_record_s"] == {"record": 1.0}


def test_equal_first_records_leave_no_cluster_empty():
    case = make_case(4000, 1, 2, 512, 4)
    assert case.sizes.min() > 0


def test_published_values_stand_beside_their_own_shape_only():
    assert published.table_5_3("SBD", "online", 10, 4) == 1333
    assert published.table_5_3("SBD", "online", 10, 8) is None
    assert share_primitives._published("SBD + SMIN_k", "online", 10, 4) == 4 * 1333 + 16_021
    assert share_primitives._published("SBD + SMIN_k", "online", 5, 4) is None


@pytest.mark.parametrize("option", ["--plot", "--json"])
def test_a_file_that_cannot_be_written_is_refused_before_measuring(option, tmp_path, monkeypatch):
    monkeypatch.setattr(grids, "measure", None)
    (tmp_path / "file").touch()
    done = CliRunner().invoke(app, ["bench", "sweep", option, str(tmp_path / "file" / "x.png")])
    assert done.exit_code == 2
    assert "no folder" in " ".join(done.output.replace("│", "").split())


def test_a_plot_is_a_png_and_its_folder_is_made(tmp_path):
    done = CliRunner().invoke(app, ["bench", "kegg", "--plot", str(tmp_path / "plot.pdf")])
    assert done.exit_code == 2
    assert ".png" in done.output
    files = {"--plot": tmp_path / "new" / "plot.png", "--json": tmp_path / "other" / "x.json"}
    options = [str(word) for pair in files.items() for word in pair]
    assert CliRunner().invoke(app, ["bench", "kegg", *options]).exit_code == 0
    assert all(file.exists() for file in files.values())
