"""Results that are not what they seem come with a warning or an error that says it."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from client.fetched_result import JobProgress
from client.operator import Operator
from client.owner import Owner
from ppodc import (
    LocalPlatform,
    LocalPrivateKMeans,
    RecordLinkage,
    RemotePlatform,
    SecureKMeans,
    SecureTotals,
    rules,
)
from ppodc.errors import InputError
from ppodc.kinds import cloud_side, owner_side
from ppodc.kmeans.private.explain import explain
from ppodc.kmeans.private.job import NoisyJob
from ppodc.linkage.result import LinkResult
from ppodc.service.deployment import members
from ppodc.service.job_state import JobState
from ppodc.spec import Spec
from tests.client.points import BOUNDS, SCHEMA, points

ONE = [np.array([[1.0]]), np.array([[1.0], [1.0]])]


def test_a_delta_that_protects_nobody_is_refused_before_anything_is_charged(threads, tmp_path):
    model = SecureKMeans(2, epsilon=1, delta=0.5, bounds=BOUNDS, platform=threads)
    with pytest.raises(ValueError, match=r"delta 0\.5 is no protection for 40 records"):
        model.fit([points(20, 1), points(20, 2)])
    spec = Spec("clinic", SCHEMA, NoisyJob(k=2, epsilon=1.0, delta=0.05))
    values = np.zeros((20, 2), np.int64)
    with pytest.raises(InputError, match="is no protection for 20 records"):
        owner_side(spec).charge(values, tmp_path, Fraction(10))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="is no protection for 20 records"):
        cloud_side(spec).check(20, "shares", 2048)
    assert len(owner_side(spec).charge(values[:19], tmp_path, Fraction(10))) == 32
    cloud_side(spec).check(19, "shares", 2048)


def test_a_delta_near_one_over_the_records_is_warned_of_everywhere_in_the_same_words(threads):
    told = r"delta 0\.01 is not far below one over 40 records: .* Choose it below 0\.0025"
    model = SecureKMeans(2, epsilon=1, delta=0.01, bounds=BOUNDS, platform=threads)
    with pytest.warns(UserWarning, match=told):
        model.fit([points(20, 1), points(20, 2)])
    spec = Spec("clinic", SCHEMA, NoisyJob(k=2, epsilon=1.0, delta=0.01))
    assert re.match(told, owner_side(spec).doubt(40))  # which `Owner.upload` warns of
    assert any(re.match(told, note) for note in explain(spec, 40)[2])
    assert owner_side(spec).doubt(4) == ""


def test_a_guarantee_of_no_use_is_refused_or_told_when_a_dataset_is_created(platform):
    made = platform.deployment.party("operator").config
    base = Spec("private", SCHEMA, NoisyJob(k=2, epsilon=50.0, delta=1e-6))
    with Operator.connect(made) as operator:
        spec = replace(base, owners=members(platform.deployment.folder))
        with pytest.warns(UserWarning, match="epsilon 50 is no protection worth the name"):
            operator.create(spec)
        job = NoisyJob(k=3, epsilon=1.0, delta=0.5)
        with pytest.raises(InputError, match=r"delta 0\.5 is no protection for 3 records"):
            operator.create(replace(spec, name="none", job=job))
        assert "none" not in [each.name for each in operator.datasets()]
    words = replace(base, job=NoisyJob(k=2, epsilon=1.0, delta=0.05)).describe()
    assert any("protects fewer than 20 records" in line for line in words)


def test_a_key_that_the_spec_knows_by_another_name_is_told(platform, tmp_path):
    config = platform.deployment.party("ann").config
    other = config.with_name("other.toml")
    other.write_text(config.read_text().replace('name = "ann"', 'name = "bob"'))
    told = "knows your key as 'ann', and your configuration says 'bob'"
    with Owner.connect(other) as owner:
        with pytest.warns(UserWarning, match=told):
            owner.upload("clinic", np.ones((8, 3)), spec=owner.spec("clinic"), progress=False)
        with pytest.warns(UserWarning, match=told), pytest.raises(InputError, match="no result"):
            owner.result("clinic", wait=False)


def test_an_error_of_a_linkage_names_the_owner(threads):
    rule = rules.all_of([rules.exact("name")])
    model = RecordLinkage(rule=rule, texts={"name": 5}, platform=threads)
    good, bad = pd.DataFrame({"name": ["ann"]}), pd.DataFrame({"name": ["a#n"]})
    with pytest.raises(ValueError, match=r"^the table of south: 1 value .*row 0, column 'name'"):
        model.fit({"north": good, "south": bad})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "the list holds no table"),
        ([ONE[0], {1, 2}], "the table of owner 2 cannot be used: .* A table is a DataFrame"),
        ([ONE[0], np.array([[1 + 1j]])], "owner 2 cannot be used: Complex data not supported"),
        (pd.DataFrame({"size": [3.0]}), "owner 1: missing columns 'x'; it has 'size'"),
        (pd.DataFrame({"x": ["4,5"]}), r"no numbers are in 'x' .*or leave them out of the bounds"),
    ],
)
def test_what_is_no_table_is_refused_by_owner_and_without_values(data, said):
    with pytest.raises(InputError, match=said) as caught:
        SecureKMeans(1, bounds={"x": (0, 9)}).fit(data)
    assert "4,5" not in str(caught.value)
    assert "1j" not in str(caught.value)


@pytest.mark.parametrize("bounds", [(0, "x"), {"x": "0-9"}, {"x": (0, 9, 3)}])
def test_bounds_that_are_no_pairs_are_named(bounds):
    with pytest.raises(InputError, match="bounds must be "):
        SecureKMeans(1, bounds=bounds).fit(pd.DataFrame({"x": [1.0, 2.0]}))


def test_an_epsilon_beyond_any_use_is_told_in_python_and_by_the_command(threads):
    model = SecureKMeans(2, epsilon=50, bounds=BOUNDS, random_state=1, platform=threads)
    with pytest.warns(UserWarning, match="epsilon 50 is no protection worth the name"):
        model.fit([points(2000, 1), points(20, 2)])
    spec = Spec("clinic", SCHEMA, NoisyJob(k=2, epsilon=50.0, delta=1e-6))
    assert any("epsilon 50 is no protection" in line for line in spec.describe())
    usual = Spec("clinic", SCHEMA, NoisyJob(k=2, epsilon=1.0, delta=1e-6))
    assert not any("no protection" in line for line in usual.describe())
    with pytest.raises(ValueError, match="epsilon 1000 is beyond any use"):
        LocalPrivateKMeans(2, epsilon=1000, bounds=BOUNDS).fit(points(40, 1))


def test_rows_beyond_max_links_are_counted_in_a_warning(threads):
    model = RecordLinkage(theta=0, bounds=(0, 10), platform=threads)
    with pytest.warns(UserWarning, match="owner 1: 1 of 1 rows have more than max_links = 1"):
        model.fit(ONE)
    shown = LinkResult(model.partners_[0], [()], 1).summary()  # by the command
    assert "1 of 1 rows have more than max_links = 1" in shown


def test_blocks_that_cost_more_than_all_pairs_are_warned_of(threads):
    model = RecordLinkage(
        rule=rules.sse([1], limit=0), bounds={"x0": (0, 10)}, ub=10, platform=threads
    )
    model.set_params(blocks=rules.adtree(epsilon=2, delta="1/100"))
    with pytest.warns(UserWarning, match="without blocks"):
        found = model.estimate([3, 3])
    assert found.reduction < 0
    assert replace(found, reduction=0.5).dearer() == ""
    with pytest.warns(UserWarning, match="without blocks"):
        model.fit(ONE)


def test_clusters_below_min_size_are_warned_of(threads):
    model = SecureKMeans(2, bounds=BOUNDS, min_size=1000, random_state=1, platform=threads)
    with pytest.warns(UserWarning, match="2 of the 2 clusters have fewer records than min_size"):
        model.fit(points(20, 1))
    assert "fewer records than min_size" in model.result_.summary()


@pytest.mark.parametrize(
    ("given", "said"),
    [({}, "nothing says"), ({"theta": 0, "rule": rules.sse([1], limit=0)}, "both say")],
)
def test_a_linkage_has_either_theta_or_a_rule(given, said):
    with pytest.raises(ValueError, match=f"{said} which rows match: give either theta"):
        RecordLinkage(bounds=(0, 10), **given).fit(ONE)


def test_platforms_that_cannot_be_are_refused_when_they_are_made(tmp_path):
    for pairs in (0, "two"):
        with pytest.raises(InputError, match="pairs must be at least 1"):
            LocalPlatform(pairs=pairs)
    with pytest.raises(InputError, match="needs 1 to"):
        LocalPlatform(owners=0)
    missing = tmp_path / "owner.toml"
    with pytest.raises(InputError, match="there is no configuration file"):
        RemotePlatform(missing, dataset="clinic")


def test_predict_names_its_real_limit(threads):
    model = SecureKMeans(1, bounds=BOUNDS, random_state=1, platform=threads).fit(points(20, 1))
    assert model.predict([[1e7, 0.0]]).tolist() == [0]
    with pytest.raises(ValueError, match=r"above 10485770\.0, 1048576 times the column's range"):
        model.predict([[1e9, 0.0]])


def test_totals_of_whole_numbers_are_whole(threads):
    ages = np.random.default_rng(3).integers(0, 111, (50, 1)).astype(float)
    rows = np.hstack([ages, 2 * ages])
    bounds = [(0, 110), (0, 250)]
    model = SecureTotals(bounds=bounds, platform=threads).fit([rows[:20], rows[20:]])
    assert model.sum_.tolist() == rows.sum(axis=0).tolist()
    with pytest.warns(UserWarning, match="column 'x0' has whole numbers, which ub=1000 rounds"):
        model.set_params(ub=1000).fit([rows[:20], rows[20:]])
    assert model.sum_[0] != rows[:, 0].sum()


def test_waiting_says_who_must_do_what():
    told = JobProgress(JobState.CREATED, 0, "").waiting("clinic")
    assert "the operator of cloud 1 must start it with: ppodc run clinic" in told
    assert JobProgress(JobState.RUNNING, 3, "").waiting("clinic").endswith("(iteration 3)")


def test_the_file_is_looked_at_before_the_agreement(platform, tmp_path):
    """A spec counts as agreed to once there is something to send."""
    with platform.owner() as owner, pytest.raises(InputError, match="does not exist"):
        owner.upload("clinic", tmp_path / "none.csv", spec="0" * 64, progress=False)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SecureKMeans(3, n_jobs=2), "SecureKMeans has no parameter 'n_jobs': worker pairs"),
        (lambda: SecureKMeans(3, algorithm="elkan"), "Lloyd's"),
        (lambda: SecureKMeans(3, bound=(0, 1)), "did you mean 'bounds'"),
        (lambda: SecureTotals(n_jobs=2), "SecureTotals has no parameter 'n_jobs'"),
        (lambda: RecordLinkage(n_jobs=2), "RecordLinkage has no parameter 'n_jobs'"),
        (lambda: LocalPrivateKMeans(3, epsilon=1, zz=2), "no parameter 'zz': known are bits"),
    ],
)
def test_an_unknown_parameter_is_named_with_what_there_is(make, said):
    for kind in (ValueError, TypeError):
        with pytest.raises(kind, match=said):
            make()


@pytest.mark.parametrize("rule", [rules.exact("x0"), [rules.exact("x0")], rules.levels("x0", [1])])
def test_a_field_is_no_rule(rule):
    linkage = RecordLinkage(rule=rule, bounds={"x0": (0, 9)})
    tables = [pd.DataFrame({"x0": [1, 2, 3]})] * 2
    for ask in (
        lambda: linkage.fit(tables),
        lambda: linkage.estimate([3, 3]),
        lambda: SecureKMeans(1, bounds={"x0": (0, 9)}, dedup=linkage).fit(tables),
    ):
        with pytest.raises(InputError, match=r"a field is no rule yet. rules.all_of\("):
            ask()
