"""Measured points survive whatever ends the process, and are not measured twice."""

import json
import subprocess
import sys

import pytest

from ppodc.bench import machine
from ppodc.bench.points import Points, Task, measure
from ppodc.errors import InputError

KEY = {"bench": "test", "m": 10, "k": 2}

HANGS_AT_THE_SECOND = """
import sys, time
from pathlib import Path
from ppodc.bench.points import Points, Task, measure

def hang(tell):
    print("hanging", flush=True)
    time.sleep(600)

tasks = [
    Task("first", {"n": 1}, lambda tell: {"seconds": 1.5}),
    Task("second", {"n": 2}, hang),
]
measure("test", tasks, Points(Path(sys.argv[1])))
"""


def refuse(_tell):
    raise AssertionError("this point is on file")


def test_a_point_is_found_by_all_its_parameters_and_on_its_own_machine(tmp_path):
    file = tmp_path / "new" / "points.jsonl"
    Points(file).add(KEY, {"seconds": 1.0, "exact": True})
    again = Points(file)
    assert again.get(dict(reversed(KEY.items()))) == {"seconds": 1.0, "exact": True}
    assert again.get({**KEY, "m": 11}) is None
    assert again.get({"bench": "test", "m": 10}) is None
    assert Points(file, on="another machine").get(KEY) is None


def test_a_point_of_other_code_is_not_found(tmp_path, monkeypatch):
    file = tmp_path / "points.jsonl"
    Points(file).add(KEY, {"seconds": 1.0})
    here = machine.describe()
    monkeypatch.setattr(machine, "describe", lambda: {**here, "code": "other"})
    assert Points(file).get(KEY) is None
    assert Points(file).get(KEY, anywhere=True) == {"seconds": 1.0}
    assert measure("test", [Task("kept", KEY, refuse, anywhere=True)], Points(file))


def test_a_later_point_replaces_and_what_is_handed_out_is_a_copy(tmp_path):
    points = Points(tmp_path / "points.jsonl")
    points.add(KEY, {"rows": [1]})
    points.get(KEY)["rows"].append(2)
    assert points.get(KEY) == {"rows": [1]}
    points.add(KEY, {"rows": [3]})
    assert Points(points.path).get(KEY) == {"rows": [3]}


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    file = tmp_path / "points.jsonl"
    command = [sys.executable, "-c", HANGS_AT_THE_SECOND, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "hanging\n"
        process.kill()
    tasks = [
        Task("first", {"n": 1}, refuse),
        Task("second", {"n": 2}, lambda _: {"seconds": 2.5}),
        Task("third", {"n": 3}, lambda _: {"seconds": 3.5}),
    ]
    values = measure("test", tasks, Points(file))
    assert [value["seconds"] for value in values] == [1.5, 2.5, 3.5]
    assert len(file.read_text().splitlines()) == 3
    everything = [Task(task.label, task.key, refuse) for task in tasks]
    assert measure("test", everything, Points(file)) == values


def test_an_interrupt_says_what_is_kept(tmp_path, capsys):
    def interrupted(_tell):
        raise KeyboardInterrupt

    file = tmp_path / "points.jsonl"
    tasks = [Task("good", {"n": 1}, lambda _: {"x": 1}), Task("bad", {"n": 2}, interrupted)]
    with pytest.raises(KeyboardInterrupt):
        measure("test", tasks, Points(file))
    said = " ".join(capsys.readouterr().err.split())
    assert "interrupted: 1 of 2 points are in" in said
    assert "repeat the command" in said
    assert Points(file).get({"n": 1}) == {"x": 1}


def test_an_error_loses_no_finished_point(tmp_path):
    file = tmp_path / "points.jsonl"
    tasks = [Task("good", {"n": 1}, lambda _: {"x": 1}), Task("bad", {"n": 2}, refuse)]
    with pytest.raises(AssertionError):
        measure("test", tasks, Points(file))
    assert Points(file).get({"n": 1}) == {"x": 1}


@pytest.mark.parametrize("torn", ['{"key": {"m"', '{"key": {}, "value": {}, "machine": "x"}'])
def test_a_torn_last_line_is_dropped(tmp_path, torn):
    file = tmp_path / "points.jsonl"
    Points(file).add(KEY, {"x": 1})
    with file.open("a") as out:
        out.write(torn)
    points = Points(file)
    assert points.get(KEY) == {"x": 1}
    points.add({"n": 2}, {"x": 2})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["value"]["x"] for line in lines] == [1, 2]


@pytest.mark.parametrize("bad", ["what is this", '{"value": {}}', "[1, 2]"])
def test_a_file_that_is_no_results_file_is_refused_and_kept(tmp_path, bad):
    file = tmp_path / "notes.txt"
    file.write_text(bad + "\nmore\n")
    with pytest.raises(InputError, match="line 1"):
        Points(file)
    assert file.read_text() == bad + "\nmore\n"


def test_progress_is_a_line_per_point_where_there_is_no_terminal(tmp_path, capsys):
    points = Points(tmp_path / "points.jsonl")
    tasks = [Task(f"point {n}", {"n": n}, lambda _: {}) for n in range(2)]
    measure("test", tasks[:1], points)
    measure("test", tasks, points)
    said = capsys.readouterr().err.replace("\n", " ")
    assert "test 1/2: point 0 (measured before)" in said
    assert "test 2/2: point 1" in said
    assert "1 of 2 points are from" in said
