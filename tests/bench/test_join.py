"""Joining between two processes: values and bits are exact, and a wrong one would be seen."""

import json
from dataclasses import replace

from typer.testing import CliRunner

from ppodc.bench.linkage.join import make, run_case, whole
from ppodc.cli import app


def test_a_wrong_value_is_seen():
    case = make(30, 3, "1:1")
    wrong = replace(case, values=case.values + (case.keep[:, None] * [[0, 0, 1, 0, 0]]))
    costs = run_case(wrong, lambda _: None)
    assert not costs["exact"]


def test_the_command_is_exact(tmp_path):
    files = ["--points", str(tmp_path / "points.jsonl"), "--json", str(tmp_path / "x.json")]
    sizes = ["--rows", "30", "--cells", "3", "--relation", "1:1", "--no-clusters"]
    done = CliRunner().invoke(app, ["bench", "join", *sizes, *files])
    assert done.exit_code == 0, done.output
    (costs,) = json.loads((tmp_path / "x.json").read_text())["points"]
    assert costs["exact"]
    assert costs["joined"] > 0
    assert costs["join_bytes"] > 0
    assert CliRunner().invoke(app, ["bench", "join", "--relation", "n:m"]).exit_code != 0


def test_the_whole_job_gives_what_scikit_learn_gives():
    case = make(40, 2, "m:1")
    assert whole(case, "m:1")["whole_same"]
    other = case.tables[1].assign(i0=case.tables[1]["i0"] + 1)
    assert not whole(replace(case, tables=[case.tables[0], other]), "m:1")["whole_same"]
