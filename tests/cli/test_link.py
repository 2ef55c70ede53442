"""`ppodc link estimate` and `preview`: costs and cells before anything is sent."""

from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.linkage.job import SAMPLE

runner = CliRunner()
ALL_PAIRS = SAMPLE.partition('blocks = "key"')[0]
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
    data.write_text(TABLE + "x" * 30 + ",1,1.5,1970\n")
    refused = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    text = str(refused.exception)
    assert "line 5, column 'surname': 30 characters, at most 20" in text
    assert "line 5, column 'height': not a whole number" in text
    assert "xxx" not in text


def test_signs_beyond_the_alphabet_are_refused_unless_the_spec_maps_them(tmp_path):
    spec, data = tmp_path / "spec.toml", tmp_path / "data.csv"
    spec.write_text(SAMPLE)
    data.write_text(TABLE + "O'Neill-Smith 2,1,180,1970\n李,12a,180,1970\n")
    refused = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    text = str(refused.exception)
    assert "1 value cannot" in text
    assert "line 6, column 'surname': signs other than a-z" in text
    assert 'other = "map"' in text
    assert "李" not in text
    spec.write_text(SAMPLE.replace("longest = 20", 'longest = 20, other = "map"'))
    seen = runner.invoke(app, ["link", "preview", str(spec), str(data)])
    assert seen.exit_code == 0, seen.output
    assert "5 rows" in seen.output
