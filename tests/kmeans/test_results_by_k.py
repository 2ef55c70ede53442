"""Results of several k as an owner meets them: opened, told apart, drawn, written."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from ppodc.cli.options import write_columns
from ppodc.cli.owners import _draw_elbow
from ppodc.errors import InputError, ProtocolError
from ppodc.kmeans.job import Job
from ppodc.kmeans.result import ResultsByK, open_result
from ppodc.records.result_shares import OpenedResult
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec

SCHEMA = Schema((Column("x", 0, 9), Column("y", 0, 9)), 9)
# Records (0, 0), (2, 0), (9, 9): in one cluster, or the first two and the third.
ONE, TWO = [11, 9, 3, 166], [2, 0, 2, 9, 9, 1, 166]
FACTS = {"n_iter": 5, "converged": True}


def opened(values, job=Job(k=2, ks=(1, 2), inertia=True, labels=True, min_size=1)):  # noqa: B008
    spec = Spec("d", SCHEMA, job)
    rows = {"labels-1": [0, 0, 0], "labels-2": [0, 0, 1]}
    return open_result(spec, OpenedResult(FACTS, values, rows))


def both():
    result = opened({"clusters-1": ONE, "clusters-2": TWO})
    assert isinstance(result, ResultsByK)
    return result


def test_each_k_has_its_result_and_its_inertia():
    result = both()
    assert result.inertias_ == {1: 166 - Fraction(121 + 81, 3), 2: 2}
    assert result.by_k[2].sizes_.tolist() == [2, 1]
    assert result.own_rows() == {"label_1": [0, 0, 0], "label_2": [0, 0, 1]}
    headings, rows = result.table()
    assert headings[:3] == ["k", "cluster", "records"]
    assert [row[:3] for row in rows] == [[1, 0, 3], [2, 0, 2], [2, 1, 1]]
    assert "iterations: 5 in all" in result.summary()
    assert "k = 2: inertia 2" in result.summary()
    assert json.loads(json.dumps(result.figures()))["by_k"]["2"]["inertia"] == 2.0


@pytest.mark.parametrize(
    "values",
    [
        {"clusters-1": ONE},
        {"clusters-1": ONE, "clusters-2": TWO[:-1]},  # no squares
        {"clusters-1": ONE, "clusters-2": [*TWO[:-1], 163]},  # less than the centres' norms
        {"clusters-1": ONE, "clusters-2": [*TWO[:-1], 1 << 60]},
    ],
)
def test_halves_that_cannot_belong_together(values):
    with pytest.raises(ProtocolError, match="do not belong together"):
        opened(values)


def test_the_elbow_is_drawn_where_there_is_one(tmp_path: Path):
    file = tmp_path / "elbow.png"
    _draw_elbow(both(), file)
    assert file.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="one number of clusters"):
        _draw_elbow(both().by_k[2], file)
    silent = Job(k=2, ks=(1, 2), labels=True, min_size=1)
    with pytest.raises(InputError, match="does not offer the inertia"):
        _draw_elbow(opened({"clusters-1": ONE[:-1], "clusters-2": TWO[:-1]}, silent), file)


def test_labels_of_every_k_are_written_beside_each_other(tmp_path: Path):
    file = tmp_path / "labels.csv"
    write_columns(file, both().own_rows())
    assert file.read_text() == "label_1,label_2\n0,0\n0,0\n0,1\n"
