"""Numbers and words in one report: distance, guarantee by enumeration, prototypes, refusals."""

import itertools
import math

import numpy as np
import pytest

from client import LocalPrivateKPrototypes
from ppodc.errors import InputError
from ppodc.local_dp.audit import audit
from ppodc.local_dp.job import Job, build
from ppodc.local_dp.mixed import Layout, NearestMixed, mixed_points
from ppodc.local_dp.oracles import oracle
from ppodc.local_dp.report_streams import RecordStreams, ReportKey, insecure_streams
from ppodc.privacy.chances import WORD
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec

LAYOUT = Layout.of((0, 3, 0, 2), 10, 0.5)
SCHEMA = Schema(
    (
        Column("age", 0, 100),
        Column.of_words("smoker", ["no", "former", "yes"]),
        Column("weight", 40, 140),
        Column.of_words("sex", ["f", "m"]),
    ),
    ub=100,
)


def every_record(layout, numbers):
    tops = [range(size) if size else numbers for size in layout.sizes]
    return np.array(list(itertools.product(*tops)))


def distance(layout, first, second):
    """Of k-prototypes, from its definition."""
    parts = zip(layout.sizes, first.tolist(), second.tolist(), strict=True)
    return sum(2 * layout.step**2 * (a != b) if size else (a - b) ** 2 for size, a, b in parts)


@pytest.mark.parametrize("count", [4, 13])
def test_a_record_tells_the_nearest_point(count):
    """With fewer points than combinations of words, and with some for each."""
    made = NearestMixed.of(LAYOUT, 1.0, count, 1)
    points = LAYOUT.back(made.book.points.astype(float)).astype(int)
    assert len(points) == (4 if count == 4 else 12)
    records = every_record(LAYOUT, (0, 3, 7, 10))
    wanted = [
        min(range(len(points)), key=lambda p: distance(LAYOUT, r, points[p])) for r in records
    ]
    assert made.cells(records).tolist() == wanted
    assert np.array_equal(LAYOUT.back(LAYOUT.spread(records)), records)
    if count == 13:
        assert len({tuple(p[[1, 3]]) for p in points}) == 6, "every combination has points"


class Word(RecordStreams):
    """One given word for every record."""

    def __init__(self, rows, word):
        self._rows, self._word = rows, word

    def __len__(self):
        return self._rows

    def words(self, count):
        return np.full((self._rows, count), self._word, np.uint32)


def test_the_guarantee_of_a_record_holds_and_is_tight():
    """All records of a small domain, all reports: the largest ratio is e^epsilon.

    GRR shifts a cell by the same number of words for each other cell, so one word of every stretch
    of words shows what all of them give.
    """
    layout = Layout.of((0, 2), 4, 0.5)
    made = NearestMixed.of(layout, 1.5, 6, 1)
    grr = made.book.oracle
    assert grr.name == "grr"
    records = every_record(layout, range(5))
    chances = np.zeros((len(records), grr.cells))
    stretches = [(shift * grr.other, grr.other) for shift in range(grr.cells - 1)]
    kept = (grr.cells - 1) * grr.other
    for first, width in [*stretches, (kept, WORD - kept)]:
        ends = [made.perturb(records, Word(len(records), word))[:, 0] for word in
                (first, first + width - 1)]  # fmt: skip
        assert np.array_equal(*ends), "the same report for every word of the stretch"
        chances[np.arange(len(records)), ends[0]] += width / WORD
    assert np.allclose(chances.sum(axis=1), 1)
    most = math.log((chances.max(axis=0) / chances.min(axis=0)).max())
    assert most == pytest.approx(made.guarantee().guaranteed.epsilon, abs=1e-9)
    assert 1.5 - 1e-6 < made.guarantee().guaranteed.epsilon <= 1.5


def test_an_audit_shows_no_more_than_is_guaranteed():
    spec = Spec("mixed", SCHEMA, Job(2, 2.0, "mixed", points=30, seed=1))
    assert 0.5 < audit(spec, 4000, ReportKey.from_seed(1)) <= 2.0


def test_specs_keep_their_keys_and_refuse_what_does_not_fit():
    spec = Spec("mixed", SCHEMA, Job(3, 1.0, "mixed", expected_rows=5000))
    assert spec.job.mismatch == 0.5
    assert Spec.loads(spec.to_toml()) == spec == Spec.from_bytes(spec.canonical())
    near = Spec("mixed", SCHEMA, Job(3, 1.0, "mixed", expected_rows=5000, mismatch=0.1))
    assert near.digest != spec.digest
    assert build(near.job, SCHEMA).digest() != build(spec.job, SCHEMA).digest()
    assert "mismatch" not in Job(3, 1.0, expected_rows=10).to_dict()
    numbers = Schema((Column("a", 0, 1),))
    for make, reason in [
        (lambda: Spec("m", numbers, Job(2, 1.0, "mixed", points=9)), "codebook"),
        (lambda: Job(2, 1.0, "mixed"), "expected_rows"),
        (lambda: Job(2, 1.0, "mixed", points=9, mismatch=0.0), "from 0.01"),
        (lambda: Job(2, 1.0, "codebook", points=9, mismatch=0.5), "for mixed"),
        (lambda: Spec("m", SCHEMA, Job(8, 1.0, "mixed", points=8)), "more job.points"),
        (lambda: Layout.of((0, 1025), 10, 0.5), "1024"),
    ]:
        with pytest.raises(InputError, match=reason):
            make()


def test_points_stay_within_what_can_be_told():
    many = Layout.of((0, 40, 40), 100, 0.5)
    points = mixed_points(many, 4096, 1)
    assert len(points) == 3200
    assert oracle(len(points), 1.0).name == "oue"


def people(rows, seed=1):
    """Two groups that differ in age and in most of their words."""
    words = insecure_streams(rows, seed).words(7).astype(np.int64)
    group = words[:, 6] % 2
    age = np.array([25.0, 70.0])[group] + words[:, :4].sum(axis=1) % 17 - 8
    smoker = np.where(words[:, 4] % 5 == 0, words[:, 5] % 3, np.array([0, 2])[group])
    named = np.array(["no", "former", "yes"], object)[smoker]
    return np.stack([age.astype(object), named], axis=1), group


def test_prototypes_of_two_owners():
    (first, _), (second, groups) = people(2000, 1), people(1500, 2)
    columns = [(0, 100), ["no", "former", "yes"]]
    model = LocalPrivateKPrototypes(
        2, epsilon=4.0, columns=columns, random_state=0, insecure_noise_seed=1
    ).fit([first, second])
    prototypes = sorted(model.cluster_centers_.tolist())
    assert [word for _, word in prototypes] == ["no", "yes"]
    assert [age for age, _ in prototypes] == [pytest.approx(25, abs=8), pytest.approx(70, abs=8)]
    assert model.privacy_.guaranteed.epsilon <= 4.0
    assert model.usable_
    assert (model.standard_error_[:, 1] <= 1).all()
    found = model.predict(second)
    assert np.array_equal(found, model.labels_[2000:])
    same = (found == groups).mean()
    assert max(same, 1 - same) > 0.9
    import pandas as pd

    frame = pd.DataFrame(second, columns=["age", "smoker"])
    named = dict(zip(frame.columns, columns, strict=True))
    by_name = LocalPrivateKPrototypes(2, epsilon=4.0, columns=named, random_state=0).fit(frame)
    assert by_name.predict(frame).shape == (1500,)
    with pytest.raises(InputError, match="missing columns 'weight'"):
        LocalPrivateKPrototypes(2, columns={"age": (0, 100), "weight": (0, 9)}).fit(frame)
    with pytest.raises(InputError, match="2 entries"):
        LocalPrivateKPrototypes(2, columns=[(0, 100)]).fit(second)
    second[3, 1] = "often"
    with pytest.raises(InputError, match="row 3"):
        model.fit(second)
