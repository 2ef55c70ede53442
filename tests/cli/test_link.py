"""`ppodc link estimate` and `preview`: costs and cells before anything is sent."""

from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.linkage.job import SAMPLE

runner = CliRunner()
ALL_PAIRS = SAMPLE.partition('blocks = "key"')[0]
NUMBERS = """
name = "d"
schema = { ub = 63, columns = [{ name = "x", low = 0, high = 63 }] }
[job]
kind = "linkage"
rule = "sse"
weights = [1]
limit = 1
"""
TABLE = "surname,postcode,height,birth_year\nMiller,12345,180,1970\nMüller,12345,181,1970\n,,,\n"


def test_what_it_costs(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(SAMPLE)
    asked = runner.invoke(app, ["link", "estimate", str(spec), "--rows", "5000,5000"])
    assert asked.exit_code == 0, asked.output
    assert "epsilon 2, delta 2e-06" in asked.output
    assert "saved" in asked.output
    assert "25,000,000" in asked.output
    few = runner.invoke(app, ["link", "estimate", str(spec), "--rows", "20,20"])
    assert "times all)" in few.output
    spec.write_text(ALL_PAIRS)
    plain = runner.invoke(app, ["link", "estimate", str(spec), "--rows", "20,30"])
    assert "600" in plain.output
    assert "blocks" not in plain.output
    wrong = runner.invoke(app, ["link", "estimate", str(spec), "--rows", "many"])
    assert "whole numbers" in str(wrong.exception)


def test_what_an_owner_sees_of_its_own_table(tmp_path):
    spec, data = tmp_path / "spec.toml", tmp_path / "data.csv"
    spec.write_text(SAMPLE)
    data.write_text(TABLE)
    seen = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    assert seen.exit_code == 0, seen.output
    assert "3 rows in 233 cells" in seen.output
    assert "charged epsilon 2, delta 2e-06" in seen.output
    assert "4 (the spec's) │ 1" in seen.output
    assert "pairs among all own rows" in seen.output
    assert "same as an earlier one: 0 of all 3" in seen.output
    data.write_text(TABLE + "x" * 30 + ",1,1.5,1970\n")
    refused = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    text = str(refused.exception)
    assert "line 5, column 'surname': 30 characters, at most 20" in text
    assert "line 5, column 'height': not a whole number" in text
    assert "xxx" not in text


def test_own_duplicates_are_counted_over_all_rows(tmp_path):
    """The two that are alike are hardly ever both in a sample of 300."""
    spec, data = tmp_path / "spec.toml", tmp_path / "data.csv"
    spec.write_text(ALL_PAIRS)
    rows = [f"Miller,{number:05},180,1970" for number in range(1000)]
    data.write_text("\n".join(["surname,postcode,height,birth_year", *rows, rows[7], ""]))
    seen = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    assert "same as an earlier one: 1 of all 1001" in seen.output
    assert "pairs among a sample of 300 own rows" in seen.output


def test_a_follower_is_told_whose_cells_are_used(tmp_path):
    spec, data = tmp_path / "spec.toml", tmp_path / "data.csv"
    trees = 'blocks = "adtree-shared"\ntree_of = "ann"\nepsilon = 4\ndelta = 0.001\n'
    spec.write_text(NUMBERS + trees)
    data.write_text("x\n1\n2\n")
    seen = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    assert "the real ones come from ann" in seen.output
    spec.write_text(NUMBERS + trees.replace("-shared", "").replace('tree_of = "ann"\n', ""))
    seen = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    assert "2 rows" in seen.output
    assert "the real ones" not in seen.output


def test_signs_beyond_the_alphabet_are_refused_unless_the_spec_maps_them(tmp_path):
    spec, data = tmp_path / "spec.toml", tmp_path / "data.csv"
    spec.write_text(SAMPLE)
    data.write_text(TABLE + "O'Neill-Smith 2,1,180,1970\n李,12a,180,1970\n")
    refused = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    text = str(refused.exception)
    assert "2 values cannot" in text
    assert "line 6, column 'postcode': signs other than 0-9" in text
    assert "line 6, column 'surname': signs other than a-z" in text
    assert 'other = "map"' in text
    assert "李" not in text
    mapped = SAMPLE.replace("longest = 20", 'longest = 20, other = "map"')
    spec.write_text(mapped.replace("longest = 5", 'longest = 5, other = "map"'))
    seen = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    assert seen.exit_code == 0, seen.output
    assert "5 rows" in seen.output
