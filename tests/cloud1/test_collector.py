"""A single server: owners perturb and upload, the collector clusters, owners open the result."""

import numpy as np
import pytest

from cloud1.collector import collect
from ppodc.errors import BudgetError, InputError, RefusedError
from ppodc.local_dp.job import Job
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.owner import ReportOwner, owner_side
from ppodc.local_dp.owner_reports import OwnerReports
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.privacy.weighted_kmeans import mean_squared_distance
from ppodc.records.schema import Column, Schema
from ppodc.service.config import CollectorConfig, OwnerConfig, load, load_first
from ppodc.service.deployment import create_local
from ppodc.service.job_state import JobState
from ppodc.service.messages import Begin, ChunkPlace, UploadState
from ppodc.spec import Spec
from tests.cloud1.one_server import CATEGORIES, CENTRES, categories, numbers, numbers_spec
from tests.service.data import sealed_rows


def sorted_rows(array):
    return array[np.lexsort(array.T[::-1])]


@pytest.mark.parametrize("mechanism", ["codebook", "privbv", "ldpseg"])
def test_numbers_from_upload_to_result(server, mechanism):
    server.fix_noise()
    epsilon = 3.0 if mechanism == "codebook" else 10.0
    server.create(numbers_spec(mechanism=mechanism, epsilon=epsilon))
    with server.owner("ann") as ann, server.owner("bob") as bob:
        assert ann.upload("survey", numbers(4000, 1), progress=False).rows == 4000
        assert bob.upload("survey", numbers(2000, 2), progress=False).rows == 2000
        with pytest.raises(InputError, match="no result yet"):
            ann.result("survey", wait=False)
        end = collect(server.store, "survey")
        result = ann.result("survey")
    assert end.m == result.count_ == 6000
    assert result.privacy_.guaranteed.epsilon <= epsilon
    assert result.sizes_.sum() == pytest.approx(6000, rel=0.01)
    records = numbers(4000, 1)
    if mechanism == "codebook":  # of the others little more than noise is to be expected
        exact = mean_squared_distance(records, CENTRES)
        assert mean_squared_distance(records, result.cluster_centers_) < 2 * exact
    assert (result.cluster_centers_ >= [0.0, -5.0]).all()
    assert (result.cluster_centers_ <= [10.0, 5.0]).all()
    assert server.store.jobs.get("survey").state == JobState.DONE
    assert collect(server.store, "survey").facts == end.facts, "again is harmless"


@pytest.mark.parametrize("mechanism", ["joint", "ldpk-modes"])
def test_categories_from_upload_to_result(server, mechanism):
    server.fix_noise()
    server.create(Spec("kinds", CATEGORIES, Job(2, 6.0, mechanism, seed=1)))
    with server.owner("ann") as ann:
        ann.upload("kinds", categories(5000, 3), progress=False)
        collect(server.store, "kinds")
        result = ann.result("kinds")
    assert sorted_rows(result.cluster_centers_).tolist() == [[0, 1, 0], [2, 2, 2]]
    assert result.sizes_ == pytest.approx([2500, 2500], rel=0.15)
    table, rows = result.table()
    assert table[2:] == ["a", "b", "c"]
    assert len(rows) == 2


def test_only_reports_reach_the_collector_and_the_same_data_get_the_same(server):
    """Uploaded to two datasets with one mechanism: equal reports, one charge."""
    for name in ("first", "second"):
        server.create(numbers_spec(name))
    data = numbers(500, 4)
    folder = server.deployment.party("ann").folder / "privacy"
    with server.owner("ann") as ann:
        ann.upload("first", data, progress=False)
        (charged,) = OwnerReports(folder).drawings()
        ann.upload("second", data, progress=False)
        (after,) = OwnerReports(folder).drawings()
        assert (after.name, after.cost) == (charged.name, charged.cost)
        assert [use.split(",")[0].split()[0] for use in after.uses] == ["first", "second"]
        assert ann.upload("second", data, progress=False).repeated
    for name in ("first", "second"):
        server.store.seals.seal(name, [u.upload_id for u in server.store.uploads.of(name)])
    first, second = (sealed_rows(server.store, name, 0, 500) for name in ("first", "second"))
    assert np.array_equal(first, second)
    spec = numbers_spec("first")
    form = owner_side(spec)
    mechanism = form_of(spec).mechanism
    unperturbed = mechanism.perturb(form.encode(data), insecure_streams(500, 0))
    assert not np.array_equal(first, unperturbed)
    assert spec.form.part(2) is None


def test_an_upload_that_was_cut_off_goes_on_with_the_same_reports_and_one_charge(
    server, monkeypatch
):
    server.create(numbers_spec())
    data, folder = numbers(900, 6), server.deployment.party("ann").folder / "privacy"
    monkeypatch.setattr("client.sending._CHUNK_BYTES", 300)
    whole, sent = ReportOwner.chunk, []

    def dies(self, values, secret, first_row, cloud):
        if sent:
            raise KeyboardInterrupt
        sent.append(first_row)
        return whole(self, values, secret, first_row, cloud)

    with server.owner("ann") as ann:
        monkeypatch.setattr(ReportOwner, "chunk", dies)
        with pytest.raises(KeyboardInterrupt):
            ann.upload("survey", data, progress=False)
        charged = (folder / "budget.json").read_bytes()
        monkeypatch.setattr(ReportOwner, "chunk", whole)
    with server.owner("ann") as ann:
        assert not ann.upload("survey", data, progress=False).repeated
    assert (folder / "budget.json").read_bytes() == charged
    (upload,) = server.store.uploads.of("survey")
    server.store.seals.seal("survey", [upload.upload_id])
    spec = numbers_spec()
    form = owner_side(spec)
    values = form.encode(data)
    secret = OwnerReports(folder).secret(form_of(spec).mechanism.digest(), values)
    assert np.array_equal(
        sealed_rows(server.store, "survey", 0, 900), form.chunk(values, secret, 0, 1)
    )


def test_an_upload_beyond_the_budget_sends_nothing(server):
    for number in range(4):
        server.create(numbers_spec(f"survey{number}", seed=number))
    data = numbers(100, 5)
    with server.owner("ann") as ann:
        for number in range(3):
            ann.upload(f"survey{number}", data, progress=False)
        with pytest.raises(BudgetError, match="already spent"):
            ann.upload("survey3", data, progress=False)
    assert not server.store.uploads.of("survey3")


def test_bad_records_are_refused_before_any_charge(server):
    server.create(numbers_spec())
    server.create(Spec("kinds", CATEGORIES, Job(2, 1.0, "joint")))
    outside, half = numbers(10, 1), categories(10, 1)
    outside[3, 0] = 11.0
    half[4, 0] = 0.5
    half[5, 0] = np.nan
    folder = server.deployment.party("ann").folder / "privacy"
    with server.owner("ann") as ann:
        with pytest.raises(InputError, match="row 3"):
            ann.upload("survey", outside, progress=False)
        with pytest.raises(InputError, match="row 5"):
            ann.upload("kinds", half, progress=False)
        half[5, 0] = 1
        with pytest.raises(InputError, match="category"):
            ann.upload("kinds", half, progress=False)
    assert not (folder / "budget.json").exists()


@pytest.mark.parametrize(
    "chunk",
    [
        np.zeros((3, 2), np.uint16),
        np.zeros((3, 1), np.uint64),
        np.full((3, 1), 60_000, np.uint16),
        np.zeros((4, 1), np.uint16),
    ],
    ids=["columns", "type", "cell", "rows"],
)
def test_malformed_chunks_are_refused(server, chunk):
    server.create(numbers_spec(points=16, epsilon=8.0))
    spec, upload = server.store.datasets.spec("survey"), "ab" * 16
    client = server.client("ann")
    try:
        client.call("begin", Begin("survey", spec.digest, upload, 3), reply=UploadState)
        with pytest.raises(RefusedError):
            client.tell("chunk", ChunkPlace(upload, 0), [chunk])
        client.tell("chunk", ChunkPlace(upload, 0), [np.zeros((3, 1), np.uint16)])
    finally:
        client.close()


def test_padding_of_bits_is_checked(server):
    spec = numbers_spec(points=100, epsilon=1.0)
    part = spec.form.part(1)
    rows = np.zeros((2, 2), np.uint64)
    part.check(rows, 0, 2)
    rows[1, 1] = 1 << 40
    with pytest.raises(InputError, match="beyond"):
        part.check(rows, 0, 2)


def test_too_few_reports_are_not_sealed(server):
    server.create(numbers_spec(k=5))
    with server.owner("ann") as ann:
        ann.upload("survey", numbers(3, 1), progress=False)
    with pytest.raises(InputError, match="needs 5"):
        collect(server.store, "survey")
    assert server.store.jobs.get("survey").state == JobState.CREATED


def test_exact_jobs_need_the_second_cloud(server):
    from tests.service.data import make_spec

    server.create(make_spec(min_size=5))
    with server.owner("ann") as ann, pytest.raises(InputError, match="single server"):
        ann.upload("clinic", np.random.default_rng(0).uniform(0, 10, (5, 3)), progress=False)


def test_a_spec_keeps_its_identity_and_says_what_is_wrong():
    spec = numbers_spec()
    assert Spec.from_bytes(spec.canonical()).digest == spec.digest
    assert Spec.loads(spec.to_toml()).digest == spec.digest
    assert Spec.loads(spec.kind.sample).job.mechanism == "codebook"
    for wrong in (
        {"epsilon": 0.0}, {"epsilon": float("nan")}, {"k": 0}, {"mechanism": "other"},
        {"expected_rows": 0}, {"points": 1}, {"bits": 0}, {"seed": -1},
    ):  # fmt: skip
        with pytest.raises(InputError):
            numbers_spec(**wrong)
    halves = Schema((Column("a", 0, 1.5),))
    with pytest.raises(InputError, match="whole numbers"):
        Spec("kinds", halves, Job(2, 1.0, "joint"))


def test_the_role_says_whether_a_cloud_is_alone(tmp_path):
    made = create_local(tmp_path / "new", 1)
    assert isinstance(load_first(made.party("collector").config), CollectorConfig)
    assert load(made.party("owner1").config, OwnerConfig).cloud2 is None
    with pytest.raises(InputError, match="collector"):
        load_first(made.party("owner1").config)
