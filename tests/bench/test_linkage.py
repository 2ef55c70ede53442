"""The linkage experiments: what they read, draw and say; Adult within 0.01 of the specification."""

import dataclasses

import numpy as np
import pytest

from ppodc.bench.linkage import adult, kdtree, names, other_trees
from ppodc.bench.linkage.adult import Setting
from ppodc.bench.linkage.trials import PUBLISHED_MS
from ppodc.bench.points import Points
from ppodc.errors import InputError
from tests.bench.look import check_plot
from tests.outside_data import FOLDER

BUDGET = Setting(epsilon="2").budget
ADULT = FOLDER / "adult" / "adult.data"


def test_the_published_pairs_are_the_published_hours_and_reductions():
    hours = {n: pairs * PUBLISHED_MS / 3.6e6 for n, pairs in adult.PUBLISHED_PAIRS.items()}
    assert hours[6_000] == pytest.approx(14.17, abs=0.005)
    assert hours[12_000] == pytest.approx(29.5, abs=0.05)
    for n, pairs in adult.PUBLISHED_PAIRS.items():
        assert 1 - pairs / n**2 == pytest.approx(adult.PUBLISHED[n], abs=0.0005)


@pytest.fixture
def people(tmp_path):
    """Rows in the form of adult.data."""
    random = np.random.default_rng(1)
    rows = []
    for _ in range(150):
        row = ["x"] * 15
        row[2], row[12] = str(random.integers(1, 1_000_000)), str(random.integers(1, 99))
        row[6], row[7], row[9] = (f"c{random.integers(n)}" for n in (14, 6, 2))
        rows.append(", ".join(row))
    file = tmp_path / "adult.data"
    file.write_text("\n".join(rows) + "\n\n")
    adult._read.cache_clear()
    return file


@pytest.fixture
def census(tmp_path):
    """Files in the form of the package `names`."""
    for file in ("dist.all.last", "dist.female.first", "dist.male.first"):
        lines = [f"{name}  {weight}  1.0  1" for name, weight in (("ANN", 2.5), ("LI", 1.0))]
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    return tmp_path


def measured(file, sizes, seeds):
    return adult.run(
        file, m=sizes, seeds=seeds, sweeps=False, kd_readings=False, points=Points(None)
    )


def test_all_methods_give_a_document_and_a_picture(people, tmp_path):
    document = measured(people, [60, 90], 2)
    (table,) = document["tables"]
    assert len(table["rows"]) == 6
    assert {row[5] for row in table["rows"]} == {"1.000"}
    picture = tmp_path / "linkage.png"
    adult.draw(document, picture)
    assert picture.stat().st_size > 1000


def test_one_size_without_sweeps_has_a_picture(people, tmp_path):
    picture = tmp_path / "linkage.png"
    adult.draw(measured(people, [60], 1), picture)
    assert picture.stat().st_size > 1000


def test_the_grid_varies_one_parameter_at_a_time():
    points = adult.grid([6_000], sweeps=True)
    assert len(points) == len(set(points))
    base = Setting(method="ours")
    for point in points:
        changed = [n for n in ("n", "epsilon", "delta", "eta", "theta")
                   if getattr(point, n) != getattr(base, n)]  # fmt: skip
        assert len(changed) <= 1
        assert (point.height > 0) == (point.method in kdtree.METHODS)


def test_files_that_are_something_else_are_refused(tmp_path, people):
    other = tmp_path / "other.csv"
    other.write_text("1,2,3\n")
    with pytest.raises(InputError, match="not the Adult"):
        adult.load(other)
    with pytest.raises(InputError, match="there are 150"):
        measured(people, [600], 1)
    with pytest.raises(InputError, match="package `names`"):
        names.census(tmp_path / "nothing")


def test_names_are_drawn_and_suppressed_records_are_missed(census, monkeypatch, tmp_path):
    """Also of 101 records, whose thirds are not equal: what both hold is compared with itself."""
    monkeypatch.setattr(names, "SIZES", (90, 101))
    monkeypatch.setattr(
        names, "grid", lambda _: [
            names.Setting(size, epsilon, 3, method, delta)
            for size in (90, 101)
            for epsilon, delta in (("3/5", "1/100"), ("4/5", "1/100000"))
            for method in names.METHODS
        ],
    )  # fmt: skip
    document = names.run(census, 2, points=Points(None))
    found = {True: set(), False: set()}
    for point in document["points"]:
        found[point["method"] in names.SUPPRESSING].add(point["recall"])
    assert found[False] == {1.0}
    assert min(found[True]) < 1.0
    assert len(document["tables"][0]["rows"]) == 28
    names.draw(document, tmp_path / "names.png")
    check_plot(tmp_path / "names.png")


def test_the_grid_of_names_has_every_stated_point_and_figure():
    few, all_of_them = names.grid(False), names.grid(True)
    assert {tuple(getattr(s, n) for n in names._SETTING) for s in few} >= set(names.PUBLISHED)
    assert len(all_of_them) == len(set(all_of_them))
    over_epsilon = [s for s in all_of_them if (s.size, s.method, s.theta) == (10_000, "LGN", 3)]
    assert [s.epsilon for s in over_epsilon] == list(names.EPSILONS)
    stated = names._stated("recall", "size", {"epsilon": "3/5"})
    assert [(s.name, s.x, s.y) for s in stated] == [("published, LO, theta 0", (50.0,), (0.9826,))]


@pytest.mark.outside_data(ADULT)
@pytest.mark.parametrize(
    ("n", "method", "expected"),
    [(1_500, "as published", 0.845), (3_000, "as published", 0.934)],
)
def test_adult_is_within_a_hundredth_over_20_seeds(n, method, expected):
    document = measured(ADULT, [n], 20)
    (point,) = [p for p in document["adult"] if p["method"] == method]
    assert point["reduction"] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("reading", kdtree.READINGS)
def test_kd_trees_spend_at_most_a_path_and_lose_nothing(people, reading):
    method, values, median = reading
    for height in kdtree.HEIGHTS:
        share, leaf = kdtree.shares(method, height)
        assert 0 < height * share + leaf <= 1
    setting = Setting(60, method, values=values, median=median, height=4)
    point = adult._adult(people, setting, 2, lambda _: None)
    assert point["recall"] == 1
    assert 4 < point["leaves"] <= 16
    told = {**dataclasses.asdict(setting), **point, "n": 6_000}
    ((*names, best, published),) = kdtree.tables([told])[0]["rows"]
    assert names[:5] == [method, "6000", "1", values, median]
    assert (best, published) == ("4", f"{kdtree.PUBLISHED[method, 6_000]:.3f}")
    assert names[7].endswith("*") == (method == "DPkdT-basic")


def test_a_leaf_of_gb_has_more_from_height_4_on():
    basic, gb = ([kdtree.shares(m, h)[1] for h in range(2, 7)] for m in kdtree.METHODS)
    assert [a < b for a, b in zip(basic, gb, strict=True)] == [False, False, True, True, True]


def test_the_middle_of_counts_is_the_median_when_noise_is_small():
    own = np.array([0, 0, 2, 2, 2, 5, 7])
    quiet = adult.PublishedNoise(1)
    assert kdtree._middle_count(quiet, 10**6, own, np.arange(8)) == 2
    assert kdtree._by_score(quiet, 10**6, own, np.arange(8)) in (3, 4, 5)


@pytest.mark.parametrize("method", other_trees.METHODS)
def test_other_trees_lose_nothing_and_split_with_the_rows(people, method):
    point = adult._adult(people, Setting(60, method, epsilon="2"), 2, lambda _: None)
    assert point["recall"] == 1
    values, domain = adult.load(people)
    sizes = [
        len(other_trees.build(rows, domain, BUDGET, method, adult.PublishedNoise(1)).boxes)
        for rows in (values[:100], np.repeat(values, 20, axis=0))
    ]
    assert 1 <= sizes[0] < sizes[1]


def test_all_trees_over_epsilon_are_a_table_and_a_picture(people, tmp_path, monkeypatch):
    heights = {(method, 60): (1,) * 10 for method in kdtree.METHODS}
    monkeypatch.setattr(kdtree, "HEIGHT", heights)
    document = adult.run(people, m=[60], seeds=1, sweeps=False, trees=True, points=Points(None))
    table = document["tables"][1]
    assert len(table["columns"]) == 7
    assert [row[1] for row in table["rows"]] == [f"{e / 10:g}" for e in range(2, 21, 2)]
    adult.draw(document, tmp_path / "trees.png")
    assert (tmp_path / "trees.png").stat().st_size > 1000


def test_published_heights():
    assert kdtree.height("DPkdT-basic", 12_000, "8/5") == 7
    assert kdtree.height("DPkdT-GB", 6_000, "1") == 3
    assert kdtree.height("DPkdT-GB", 6_000, "1/10") is None
    assert kdtree.height("DPkdT-GB", 5_000, "1") is None
