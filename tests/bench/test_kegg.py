"""The KEGG experiment: scaling, sampling, exactness, resuming; small samples of small tables."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ppodc.bench.kmeans import kegg
from ppodc.bench.kmeans.kegg import Shape
from ppodc.bench.kmeans.whole_iteration import WholeIteration
from ppodc.bench.points import Points
from ppodc.cli import app
from ppodc.errors import InputError
from ppodc.kmeans.reference import kmeans
from tests.bench.look import check_document, check_plot
from tests.outside_data import KEGG, needs_kegg

MEASURED = Path(__file__).parents[2] / "docs" / "measured"


@pytest.fixture
def table(tmp_path):
    """A made-up table of the same form: groups, no header, one constant column."""
    g = np.random.default_rng(3)
    values = g.normal(0, 1, (60, 28)) + 6 * g.integers(0, 3, (60, 1))
    values[:, 9] = 4.2
    np.savetxt(tmp_path / "data.csv", values, delimiter=",")
    return tmp_path / "data.csv"


def test_columns_are_scaled_one_by_one():
    found = kegg.scaled(np.array([[-3.0, 5.0, 1.0], [7.0, 5.0, 2.0], [2.0, 5.0, 1.0004]]))
    assert found.tolist() == [[0, 0, 0], [1000, 0, 1000], [500, 0, 0]]


def test_a_table_is_read_with_27_columns(table):
    records = kegg.load(table)
    assert records.shape == (60, 27)
    assert (records.min(), records.max()) == (0, 1000)
    assert not records[:, 9].any()


def test_the_file_of_the_repository_loses_its_names_and_incomplete_rows(table, tmp_path):
    lines = table.read_text().splitlines()
    named = [f"K{n:05} pathway,{line}" for n, line in enumerate(lines)]
    named[3] = named[3].rsplit(",", 1)[0] + ",?"
    (tmp_path / "raw.data").write_text("\n".join(named) + "\n")
    records = kegg.load(tmp_path / "raw.data")
    assert records.shape == (59, 27)
    whole = np.delete(np.loadtxt(table, delimiter=",")[:, :27], 3, axis=0)
    assert np.array_equal(records, kegg.scaled(whole))


def test_a_whole_iteration_in_parts_is_that_of_the_whole_job(table, tmp_path, monkeypatch):
    points = Points(tmp_path / "points.jsonl")
    how = {"paillier_part": 4, "key_bits": (512,), "max_iter": 1}
    document = kegg.run_shapes(kegg.load(table), [Shape(9, 1, 2)], points=points, **how)
    (whole,) = [p for p in document["points"] if p["suite"] == "paillier"]
    assert (whole["parts"], whole["done"], whole["stage3"], whole["exact"]) == (3, 9, True, True)
    assert "measured in 3 parts" in str(document["tables"])
    assert kegg.finished(points.path)["points"] == [whole]

    lines = points.path.read_text().splitlines()
    first, second, last = (json.loads(line) for line in lines if '"start"' in line)
    chosen = kegg.sample(kegg.load(table), Shape(9, 1, 2))
    plain = kmeans(chosen, 2, beta=0, max_iter=1, seed=7).iterations[0]
    totals = np.sum([part["value"]["sums"] for part in (first, second, last)], axis=0)
    assert totals.tolist() == np.column_stack([plain.sums, plain.sizes]).tolist()
    for part in (first, second, last):
        part["machine"] = "another, with other code"
    points.path.write_text("\n".join(json.dumps(part) for part in (first, second, first)) + "\n")
    assert "8 of 9 records so far" in str(kegg.finished(points.path)["tables"]), "each part once"

    def no_more(_self, _records, start, _end, others, _tell):
        assert start == 8, "what another release has done is not done again"
        wrong = {**last["value"], "exact": False}
        return {name: wrong[name] for name in wrong if len(others) == 2}

    monkeypatch.setattr(WholeIteration, "_part", no_more)
    job = WholeIteration(2, 512, 4, kegg.UB, kegg.fingerprint(chosen))
    point = job.run(chosen, Points(points.path))
    assert point["done"] == 9
    assert not point["exact"], "one wrong part makes the whole wrong"
    points.path.write_text("{}")
    with pytest.raises(InputError, match="no file of measured points"):
        kegg.finished(points.path)


def test_what_is_no_such_table_is_refused(tmp_path):
    for name, text in (("words.csv", "a,b\nc,d\n"), ("narrow.csv", "1,2\n3,4\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError):
            kegg.load(tmp_path / name)
    with pytest.raises(InputError):
        kegg.load(tmp_path / "absent.csv")


def test_samples_are_distinct_rows_and_smaller_ones_begin_larger_ones():
    records = np.arange(300).reshape(100, 3)
    large, small = (kegg.sample(records, Shape(m, 2, 2)) for m in (40, 10))
    assert len(np.unique(large[:, 0])) == 40
    assert small.tolist() == large[:10].tolist()
    assert kegg.sample(records, Shape(100, 3, 2)).tolist() == records.tolist()
    with pytest.raises(InputError):
        kegg.sample(records, Shape(101, 3, 2))


def test_the_star_has_every_value_of_the_lists_once():
    shapes = kegg.star(63_608)
    assert len(shapes) == len(set(shapes))
    assert {s.m for s in shapes} == {*kegg.SIZES, 63_608}
    assert {s.k for s in shapes} == set(kegg.CLUSTERS)
    assert {s.l for s in shapes} == set(kegg.ATTRIBUTES)
    assert Shape(63_608, 27, 4) in shapes


def test_jobs_are_exact_and_kept(table, tmp_path, monkeypatch):
    records, file = kegg.load(table), tmp_path / "points.jsonl"
    options = {"paillier_rows": (2, 3), "key_bits": (512,)}
    result = kegg.run_shapes(records, [Shape(60, 3, 2)], points=Points(file), **options)
    shown = check_document(result, "kegg")
    assert "extrapolated" in shown
    assert "2,676" in shown
    job, few, more, line = result["points"]
    assert job["exact"]
    assert job["converged"]
    assert few["exact"]
    assert more["exact"]
    assert line["extrapolated_from_rows"] == [2, 3]
    expected = line["fixed_s"] + line["per_record_s"] * line["m"]
    assert line["total_s"] == pytest.approx(expected)
    kegg.draw(result, tmp_path / "plot.png")
    check_plot(tmp_path / "plot.png")

    monkeypatch.setattr(kegg.Run, "over", None)  # nothing may be measured again
    again = kegg.run_shapes(records, [Shape(60, 3, 2)], points=Points(file), **options)
    assert again == result


@needs_kegg
def test_a_sample_of_the_real_data_is_exact():
    records = kegg.load(KEGG)
    assert records.shape == (63_608, 27)
    (point,) = kegg.run_shapes(records, [Shape(200, 5, 4)], points=Points())["points"]
    assert point["exact"]
    assert point["converged"]


@needs_kegg
def test_the_stored_parts_are_those_that_a_run_would_go_on_from():
    chosen = kegg.sample(kegg.load(KEGG), Shape(10_000, 10, 4))
    job = WholeIteration(4, 1024, 50, kegg.UB, kegg.fingerprint(chosen))
    points = Points(MEASURED / "paillier_parts.jsonl")
    first = points.get(job.task(chosen, 0, 50).key, anywhere=True)
    assert first["exact"]
    (known,) = kegg.finished(points.path)["points"]
    shown = json.loads((MEASURED / "paillier_iteration.json").read_text())
    assert shown["points"] == [known]


def test_stored_results_are_exact_and_include_all_records():
    found = kegg.stored()
    check_document(found, "kegg")
    shares = [p for p in found["points"] if p["suite"] == "shares"]
    assert all(p["exact"] for p in shares)
    assert any((p["m"], p["l"], p["k"]) == (63_608, 27, 4) and p["converged"] for p in shares)
    assert len(json.dumps(found)) < 100_000


def test_the_command_without_data_shows_what_is_stored(tmp_path):
    file = tmp_path / "out.json"
    done = CliRunner().invoke(app, ["bench", "kegg", "--json", str(file)])
    assert done.exit_code == 0, done.output
    assert "63,608" in done.output
    assert json.loads(file.read_text()) == kegg.stored()


def test_plots_show_the_longest_row_and_prefer_the_middle():
    def point(m, l, k):
        return {"m": m, "l": l, "k": k}

    middle = [point(m, 10, 4) for m in (2_000, 4_000, 10_000)]
    fixed, found = kegg._along([*reversed(middle), point(2_000, 5, 4)], "m")
    assert (fixed, found) == ({"l": 10, "k": 4}, middle)
    longer = [point(m, 5, 2) for m in (1, 2, 3, 4)]
    assert kegg._along([*middle, *longer], "m")[1] == longer
    equal = [point(m, 5, 2) for m in (1, 2, 3)]
    assert kegg._along([*equal, *middle], "m")[1] == middle


def test_another_table_of_the_same_size_is_another_experiment(table):
    records = kegg.load(table)
    other = records.copy()
    other[5, 3] ^= 1
    assert kegg.fingerprint(records) == kegg.fingerprint(records.copy())
    keys = [kegg._job(each, Shape(20, 3, 2), 1, 5).key for each in (records, other)]
    assert keys[0] != keys[1]


def test_rows_of_the_paillier_suite_are_those_that_are_there(table, monkeypatch):
    seen = []

    def never(_title, tasks, _points):
        seen.extend(task.key["rows"] for task in tasks if "rows" in task.key)
        return []

    monkeypatch.setattr(kegg, "measure", never)
    records, options = kegg.load(table), {"key_bits": (512,), "points": Points()}
    kegg.run_shapes(records, [Shape(20, 3, 2)], paillier_rows=(8, 32, 64), **options)
    assert seen == [8, 20]
    with pytest.raises(InputError, match="4 records or more"):
        kegg.run_shapes(records, [Shape(20, 3, 4)], paillier_rows=(2, 8), **options)
