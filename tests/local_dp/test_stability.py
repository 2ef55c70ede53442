"""Noise that is drawn again tells centres that follow from records from centres made of noise."""

import numpy as np
import pytest

from ppodc.local_dp.codebook import Codebook, points_for
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.local_dp.stability import usable, warning

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
