"""The kind `private-kmeans`: its spec, what an owner is charged, what it opens."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ppodc.errors import BudgetError, InputError, ProtocolError
from ppodc.kmeans.job import SAMPLE as EXACT_SAMPLE
from ppodc.kmeans.private.job import SAMPLE, NoisyJob, plan_of
from ppodc.kmeans.private.kind import KIND, points_digest
from ppodc.kmeans.private.owner import owner_side
from ppodc.local_dp.owner_reports import OwnerReports
from ppodc.records.result_shares import OpenedResult
from ppodc.spec import Spec
from tests.kmeans.private.test_half import make_spec

PRIVACY = "\n[privacy]\nepsilon = 1\ndelta = 1e-6\n"


def test_the_sample_is_a_spec_of_this_kind():
    spec = Spec.loads(SAMPLE)
    assert spec.kind is KIND
    assert spec.job == NoisyJob(k=3, epsilon=1.0, delta=1e-6, seed=1)
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()) == spec
    assert "[privacy]" in spec.to_toml()


def test_a_k_means_spec_with_a_privacy_table_is_private_and_without_it_keeps_its_digest():
    head, _, _ = SAMPLE.partition("[job]")
    private = Spec.loads(head + '[job]\nk = 3\nkind = "kmeans"\n' + PRIVACY)
    assert private.job == NoisyJob(k=3, epsilon=1.0, delta=1e-6)
    assert b'"privacy":{"centres":9,"delta":1e-06,"epsilon":1.0}' in private.canonical()
    assert b"privacy" not in Spec.loads(EXACT_SAMPLE).canonical()


@pytest.mark.parametrize(
    ("job", "privacy", "words"),
    [
        ("k = 3", "delta = 1e-6", "missing epsilon"),
        ("k = 3", "epsilon = 1", "missing delta"),
        ("k = 3", "epsilon = 0\ndelta = 1e-6", "privacy.epsilon must be from"),
        ("k = 3", "epsilon = nan\ndelta = 1e-6", "finite"),
        ("k = 3", "epsilon = 1\ndelta = 0", "privacy.delta must be"),
        ("k = 3", "epsilon = 1\ndelta = 1", "privacy.delta must be"),
        ("k = 3", "epsilon = 1\ndelta = 1e-6\niterations = 0", "privacy.iterations"),
        ("k = 3", "epsilon = 1\ndelta = 1e-6\ncentres = 2", "privacy.centres"),
        ("k = 3", "epsilon = 1\ndelta = 1e-6\nradius = 5", "unknown key 'radius'"),
        ("k = 3\nlabels = true", "epsilon = 1\ndelta = 1e-6", "unknown key 'labels'"),
        ('k = 3\ninit = "random"', "epsilon = 1\ndelta = 1e-6", "unknown key 'init'"),
        ("k = 3\nprivacy = 1", "epsilon = 1\ndelta = 1e-6", "table of its own"),
        ('kind = "totals"', "epsilon = 1\ndelta = 1e-6", "'totals' takes no table"),
    ],
)
def test_specs_that_are_refused(job, privacy, words):
    head, _, _ = SAMPLE.partition("[job]")
    with pytest.raises(InputError, match=words):
        Spec.loads(f"{head}[job]\n{job}\n[privacy]\n{privacy}\n")


def test_the_kind_named_without_the_table_is_refused():
    head, _, _ = SAMPLE.partition("[job]")
    with pytest.raises(InputError, match="needs a table"):
        Spec.loads(head + '[job]\nkind = "private-kmeans"\nk = 3\n')


def test_owners_read_what_they_agree_to():
    words = " ".join(Spec.loads(SAMPLE).describe())
    for part in ("epsilon 1, delta 1e-06", "exactly 4 iterations", "runs once", "nothing else"):
        assert part in words


def test_only_the_shares_suite_takes_part():
    assert KIND.suite() == "shares"
    with pytest.raises(InputError, match="no suite 'paillier' for private-kmeans"):
        KIND.suite("paillier")


def test_an_owner_is_charged_once_for_the_release_before_anything_is_sent(tmp_path):
    form = owner_side(make_spec())
    assert make_spec().form.privacy().guaranteed.epsilon == 4.0
    values = np.arange(6).reshape(3, 2)
    secrets = {form.charge(values, tmp_path, Fraction(10)) for _ in range(3)}
    assert len(secrets) == 3, "shares are masked afresh"
    spent = OwnerReports(tmp_path).spent()
    assert (spent.epsilon, spent.delta) == (4.0, pytest.approx(1e-6))
    other = owner_side(make_spec(seed=6))
    other.charge(values, tmp_path, Fraction(10))
    with pytest.raises(BudgetError, match="already spent 8 of 10"):
        form.charge(values + 1, tmp_path, Fraction(10))
    assert OwnerReports(tmp_path).spent().epsilon == 8.0


def test_data_that_count_besides_an_earlier_upload_are_charged_again(tmp_path):
    form, values = owner_side(make_spec()), np.arange(6).reshape(3, 2)
    for spent in (4.0, 8.0, 12.0):  # the first is none besides: there is no earlier charge
        form.charge(values, tmp_path, Fraction(12), besides=True)
        assert OwnerReports(tmp_path).spent().epsilon == spent
    with pytest.raises(BudgetError):
        form.charge(values, tmp_path, Fraction(12), besides=True)
    form.charge(values, tmp_path, Fraction(12))


def opened(table, **changes) -> OpenedResult:
    facts = {"n_iter": 3, "points": points_digest(table), **changes}
    words = table.astype(np.int64).view(np.uint64).reshape(-1).tolist()
    return OpenedResult(facts, {"points": words}, {})


POINTS = np.array([[10, 10, 50], [20, 10, 50], [90, 80, 900], [5, 90, -30], [0, 0, 2], [1, 1, 0]])


def test_an_owner_merges_points_to_clusters():
    result = owner_side(make_spec()).open_result(opened(POINTS))
    assert result.cluster_centers_.shape == (2, 2)
    assert sorted(result.sizes_.tolist()) == pytest.approx([102, 900])
    assert result.points_[2].tolist() == pytest.approx([0.9, 0.8])
    assert result.counts_.tolist() == POINTS[:, 2].tolist()
    plan = plan_of(make_spec())
    assert result.size_deviation_ == pytest.approx(math.sqrt(2 * plan.count_variance))
    assert "guaranteed epsilon 4 at delta 1e-06" in result.summary()
    assert result.own_rows() == {}
    near = int(np.argmax(result.sizes_))
    assert result.label(np.array([[90, 81], [12, 10]])).tolist() == [near, 1 - near]
    assert result.figures()["privacy"]["guaranteed"] == {"epsilon": 4.0, "delta": 1e-6}
    assert result.figures()["columns"] == result.table()[0][2:]
    assert len(result.table()[1]) == 2


@pytest.mark.parametrize("changes", [{"points": "0" * 64}, {"n_iter": 2}, {"n_iter": None}])
def test_halves_that_do_not_belong_together(changes):
    with pytest.raises(ProtocolError, match="do not belong together"):
        owner_side(make_spec()).open_result(opened(POINTS, **changes))
    with pytest.raises(ProtocolError, match="do not belong together"):
        owner_side(make_spec()).open_result(opened(POINTS[:5]))
    with pytest.raises(ProtocolError, match="do not belong together"):
        owner_side(make_spec()).open_result(opened(POINTS + 60))
