"""Noise that is drawn again tells centres that follow from records from centres made of noise."""

import json
from pathlib import Path

import numpy as np
import pytest

from ppodc.local_dp.codebook import Codebook, points_for
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.local_dp.stability import FACTOR, usable, warning

CENTRES = np.array([[200, 200], [500, 800], [800, 300]])


def found(rows, epsilon, seed=1):
    random = np.random.default_rng(seed)
    records = CENTRES[random.integers(0, 3, rows)] + random.integers(-30, 31, (rows, 2))
    book = Codebook.of(2, 1000, epsilon, points_for(rows, 3, epsilon), seed)
    counts = book.count(book.perturb(records, insecure_streams(rows, seed)))
    centres, _ = book.centres(counts, rows, 3, seed)
    return book.stability(counts, rows, centres, seed), centres


def test_many_records_are_usable_and_few_are_not():
    many, centres = found(20_000, 4.0)
    few, _ = found(100, 0.5)
    assert usable(many.loss, 0.1)
    assert warning(many.loss, 0.1) == ""
    assert not usable(few.loss, 0.1)
    assert "largely made of noise" in warning(few.loss, 0.1)
    assert not usable(None, 1.5)
    assert many.errors.shape == (3, 2)
    assert few.errors.mean() > 3 * many.errors.mean()
    order = np.argsort(centres[:, 0])
    assert (np.abs(centres[order] - CENTRES) <= 3 * many.errors[order] + 5).all()


def test_the_same_seed_gives_the_same_answer():
    assert found(500, 1.0)[0].loss == pytest.approx(found(500, 1.0)[0].loss)


def test_clusters_finer_than_the_points_are_not_usable():
    """Noise has no say here, but nobody can tell where in a cell the records are."""
    rows = np.repeat(CENTRES, 40_000, axis=0)
    book = Codebook.of(2, 1000, 4.0, 24, 1)
    counts = book.count(book.perturb(rows, insecure_streams(len(rows), 1)))
    centres, _ = book.centres(counts, len(rows), 3, 1)
    found = book.stability(counts, len(rows), centres, 1)
    assert not usable(found.loss, book.expectation(len(rows), 3).noise)
    order = np.argsort(centres[:, 0])
    assert (np.abs(centres[order] - CENTRES) <= 2 * found.errors[order]).all()


def test_the_stored_measurement_keeps_what_the_docs_say():
    points = json.loads(Path("docs/measured/ldp-usable.json").read_text())["points"]
    assert len({point["set"] for point in points}) == 6
    assert len({point["epsilon"] for point in points}) == 4
    runs = [pair for p in points for pair in zip(p["usable"], p["losses"], strict=True)]
    trusted = [loss < FACTOR for said, loss in runs if said]
    assert len(trusted) >= 20
    assert np.mean(trusted) >= 0.9
    assert sum(p["held"] for p in points) >= 0.95 * sum(p["intervals"] for p in points)
