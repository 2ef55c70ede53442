"""Measurements under differential privacy: small runs on small data, their documents and plots."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from typer.testing import CliRunner

from ppodc.bench.local_dp import beyond, distances, kmodes, ldpseg, peers, privbv, speed
from ppodc.bench.local_dp.data import COVERTYPE, DataFolder, Labelled
from ppodc.bench.local_dp.scores import (
    ari,
    linear_accuracy,
    neighbours,
    nmi,
    reference_kmeans,
    seeded,
)
from ppodc.cli import app
from ppodc.errors import InputError
from ppodc.local_dp.report_streams import insecure_streams
from tests.bench.look import check_document, check_plot
from tests.outside_data import FOLDER

DIGITS, SHAPES = FOLDER / "digits" / "digits.csv.gz", FOLDER / "sipu" / "aggregation.data.gz"
MOONS, SMALL = FOLDER / "twomoon" / "twomoon.mat", FOLDER / "uci-small" / "nursery.data"
BANK, ADULT = FOLDER / "bank" / "bank-full.csv.gz", FOLDER / "adult" / "adult.data"
runner = CliRunner()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with one small set in the form of SIPU's."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "sipu").mkdir()
    words = insecure_streams(600, 4).words(9).astype(np.int64)
    middles = np.array([[200, 200], [800, 250], [500, 800]])
    points = middles[words[:, 8] % 3] + (words[:, :8].reshape(600, 2, 4) % 60).sum(axis=2)
    text = "\n".join(f"{x} {y}" for x, y in points)
    labels = "\n".join(map(str, words[:, 8] % 3))
    for name in ("a1", "s1"):
        (folder / "sipu" / f"{name}.data.gz").write_bytes(gzip.compress(text.encode()))
        (folder / "sipu" / f"{name}.labels0.gz").write_bytes(gzip.compress(labels.encode()))
    return folder


def test_scores_are_scikit_learns():
    words = insecure_streams(300, 1).words(2)
    for a, b in [(words[:, 0] % 4, words[:, 1] % 3), (words[:, 0] % 4, words[:, 0] % 2)]:
        first, second = a.astype(np.int64), b.astype(np.int64)
        assert nmi(first, second) == pytest.approx(normalized_mutual_info_score(first, second))
        assert ari(first, second) == pytest.approx(adjusted_rand_score(first, second))


def test_classifiers_tell_groups_apart():
    points = insecure_streams(200, 2).words(2) / 2.0**32
    labels = (points[:, 0] > 0.5).astype(np.int64)
    guess = neighbours(points[:150], labels[:150], points[150:])
    assert (guess == labels[150:]).mean() > 0.85
    assert linear_accuracy(points[:150], labels[:150], points[150:], labels[150:]) > 0.85


def test_beyond_compares_all_methods(data, tmp_path):
    result = beyond.run(data=data, sets=["a1"], epsilons=[8.0], runs=1, published_runs=1)
    text = check_document(result, "ldp beyond")
    assert "600 records" in text
    methods = {p["method"] for p in result["points"]}
    assert methods == {"no data", *beyond.METHODS}
    assert all(p["ratio"] > 0.9 for p in result["points"])
    beyond.draw(result, tmp_path / "beyond.png")
    check_plot(tmp_path / "beyond.png")


def test_adjusting_helps_and_long_strings_are_made_of_several_codes():
    found = distances._errors(1000, 4.0, 1)
    assert set(found) == set(distances.COLUMNS)
    assert found["2t - 4 sigma"] < found["raw"] / 5
    terms = np.array([[0, 5000], [2500, 2500]])
    apart, equal = distances._hamming(terms, 5000, 5000, 0).tolist()
    assert apart > 3000, "all bits differ before the flips, 61 % after them"
    assert 1700 < equal < 2300, "39 %"


def test_speed_has_a_line_for_each_work():
    result = speed.run(rows=400)
    assert "OUE, 256 points" in check_document(result, "ldp speed")


def test_the_command_writes_its_document(data, tmp_path):
    file = tmp_path / "speed.json"
    done = runner.invoke(app, ["bench", "ldp", "speed", "--rows", "200", "--json", str(file)])
    assert done.exit_code == 0, done.output
    assert json.loads(file.read_text())["bench"] == "ldp speed"
    wrong = runner.invoke(app, ["bench", "ldp", "beyond", "--sets", "nothing"])
    assert wrong.exit_code != 0
    wrong = runner.invoke(app, ["bench", "ldp", "beyond", "--epsilons", "0"])
    assert wrong.exit_code != 0


def test_the_table_beside_peers_has_a_column_for_each_epsilon():
    about = {"what": "clusters", "set": "s1", "method": "codebook"}
    clusters = [{**about, "epsilon": 0.5, "ratio": 2.5}, {**about, "epsilon": 1.0, "ratio": 1.4}]
    oracle = {"what": "oracle", "method": "OUE", "users": 10, "cpu_s": 0.1, "n_mse": 4.0}
    result = {"parameters": {"epsilons": [0.5, 1.0]}, "points": [*clusters, oracle]}
    first, _ = peers._tables(result)
    assert first["columns"][1:] == ["eps 0.5", "eps 1"]
    assert first["rows"] == [["s1, codebook", "2.5", "1.4"]]


def test_missing_data_and_missing_peers_are_told(data):
    with pytest.raises(InputError, match="--data"):
        DataFolder(data).digits()
    with pytest.raises(InputError, match="--python"):
        peers.ask({"peer": "pure-ldp", "records": [1], "k": 2}, Path(sys.executable))
    words = ["--sets", "a1", "--data", str(data), "--epsilons", "8", "--runs", "1"]
    done = runner.invoke(app, ["bench", "ldp", "peers", *words, "--python", sys.executable])
    assert isinstance(done.exception, InputError)
    assert "diffprivlib" in str(done.exception)


def test_f_measure_is_its_definition():
    classes, found = np.array([1, 1, 2, 2, 2, 3]), np.array([1, 1, 0, 0, 1, 0])
    accuracy, recall = 4 / 6, (2 / 3 + 2 / 3) / 2  # clusters 1 and 0 as classes 1 and 2
    wanted = 2 * accuracy * recall / (accuracy + recall)
    assert kmodes.f_measure(found, classes, 2) == pytest.approx(wanted)
    assert kmodes.f_measure(classes - 1, classes, 3) == 1


def test_covertype_is_read_as_uci_has_it(tmp_path):
    row = [2596, 51, 3, 258, 0, 510, 221, 232, 148, 6279]
    soils = {0: 0, 6: 1, 17: 4, 39: 6}  # number of the soil: its climatic zone
    text = "\n".join(
        ",".join(map(str, [*row, 0, 0, 1, 0, *(int(i == soil) for i in range(40)), 5]))
        for soil in soils
    )
    (tmp_path / "covtype").mkdir()
    (tmp_path / COVERTYPE).write_bytes(gzip.compress(text.encode()))
    found = DataFolder(tmp_path).covertype()
    assert found.records.tolist() == [[2, zone] for zone in soils.values()]
    assert found.labels.tolist() == [5] * 4


@pytest.mark.outside_data(SMALL, ADULT)
def test_modes_of_real_data(tmp_path, monkeypatch):
    monkeypatch.setattr(kmodes, "EPSILONS", (1.0, 2.0))
    monkeypatch.setattr(kmodes, "_STARTS", 60)
    monkeypatch.setattr(kmodes, "L1", [(12, 1_000, 1.0)])
    result = kmodes.run(data=FOLDER, runs=1)
    assert "CoverType is left out" in check_document(result, "ldp kmodes")
    (mixed,) = [p for p in result["points"] if p["what"] == "mixed"]
    assert 0.9 < mixed["loss"] < mixed["blind"]
    best = {p["set"]: p["value"] for p in result["points"] if p.get("method") == "best k-modes"}
    assert best["Auto"] == pytest.approx(0.706, abs=0.005)
    assert best["Car"] == pytest.approx(1.361, abs=0.005)
    assert best["Nursery"] < 1.96
    kmodes.draw(result, tmp_path / "kmodes.png")
    check_plot(tmp_path / "kmodes.png")


@pytest.mark.outside_data(DIGITS, SHAPES, MOONS, BANK, ADULT)
def test_real_data_have_their_shapes():
    folder = DataFolder(FOLDER)
    assert folder.digits().records.shape == (1797, 64)
    assert folder.two_moons().records.shape == (180, 2)
    assert folder.bank_all().records.shape == (45_211, 16)
    assert folder.bank().shape == (45_211, 4)
    assert folder.adult().shape == (32_561, 4)
    shapes = folder.sipu("aggregation")
    assert len(shapes.records) == len(shapes.labels) == 788
    assert reference_kmeans(shapes.records, 7, starts=2) > 0
    assert seeded(1, 2).bytes(4) == seeded(1, 2).bytes(4)


class SmallSets:
    """Three groups of points in the form of each set that the published systems are tried on."""

    def __init__(self, _: Path) -> None:
        pass

    def _groups(self, columns: int, rows: int = 60) -> Labelled:
        words = insecure_streams(rows, columns).words(columns + 1)
        labels = (words[:, 0] % 3).astype(np.int64)
        return Labelled(labels[:, None] / 4 + (words[:, 1:] % 100) / 500, labels)

    def digits(self) -> Labelled:
        return self._groups(64)

    def bank_all(self) -> Labelled:
        return self._groups(16)

    def sipu(self, _: str) -> Labelled:
        return self._groups(2)

    def two_moons(self) -> Labelled:
        return self._groups(2)


def test_the_published_systems_have_their_tables_and_plots(monkeypatch, tmp_path):
    monkeypatch.setattr(privbv, "DataFolder", SmallSets)
    monkeypatch.setattr(ldpseg, "DataFolder", SmallSets)
    monkeypatch.setattr(privbv, "DRAWS", 1)
    monkeypatch.setattr(distances, "DRAWS", 1)
    found = privbv.run(tmp_path, starts=1, epsilons=(1.0,))
    text = check_document(found, "ldp privbv")
    for published in ("0.7432", "0.6365", "0.6258", "0.7089"):
        assert published in text
    assert not any(
        "(" in cell for table in found["tables"] for row in table["rows"] for cell in row
    )
    attacked = [p["median"] for p in found["points"] if p["what"] == "attack"]
    assert all(error < 0.02 for error in attacked)
    for point in (p for p in found["points"] if p["what"] == "attack"):
        assert point["collusion"] < 0.05, "nobody needs the thresholds"
        assert 0 < point["posterior"] < 0.1
    helped = [p for p in found["points"] if p["what"] == "springboards"]
    assert all(p["with them"] < p["alone"] / 4 for p in helped)
    assert "1e-06" in text, "Figure 9"
    privbv.draw(found, tmp_path / "privbv.png")
    check_plot(tmp_path / "privbv.png")
    found = ldpseg.run(tmp_path, knn_rows=40)
    text = check_document(found, "ldp ldpseg")
    assert "0.9149 / 0.9023" in text
    assert "Gaussian, sigma 0.1" in text
    errors = {p["name"]: p["mse"] for p in found["points"] if p["data"] == "BANK"}
    assert errors["clean"] == 0 < errors["Gaussian, sigma 0.1"] < errors["honest, eps 1"]
    ldpseg.draw(found, tmp_path / "ldpseg.png")
    check_plot(tmp_path / "ldpseg.png")
