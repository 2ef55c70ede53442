"""Owners without a single record: in linkages they take part, elsewhere they cannot."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from ppodc import RecordLinkage, SecureKMeans
from ppodc.errors import InputError, RefusedError
from ppodc.linkage import rules
from ppodc.linkage.estimate import estimate
from ppodc.linkage.preview import preview
from ppodc.records.read_table import read
from ppodc.records.result_shares import ResultShare
from ppodc.service.job_state import JobState
from ppodc.service.messages import Begin, UploadState
from tests.client.points import BOUNDS
from tests.client.test_cells import linkage, rows, spent
from tests.client.two_gateways import split_values

NONE = np.empty((0, 2))


@pytest.mark.parametrize("blocks", ["none", "adtree"])
def test_a_table_without_rows_is_uploaded_sealed_and_answered(platform, blocks):
    spec = linkage(blocks="adtree")
    if blocks == "none":
        job = {"kind": "linkage", "rule": "sse", "weights": [1, 1], "limit": 2}
        spec = spec.from_dict({**spec.to_dict(), "job": job})
    platform.create(spec)
    for name, table in (("eve", NONE), ("ann", NONE), ("bob", rows(20))):
        with platform.owner(name) as owner:
            receipt = owner.upload("links", table, progress=False)
            assert (receipt.rows, receipt.repeated) == (len(table), False)
            assert owner.upload("links", table, progress=False).repeated
    assert spent(platform, "ann") == [4] * (blocks == "adtree")
    platform.seal("links")
    one, two = (store.seals.sealed("links") for store in platform.stores)
    for sealed, store in zip((one, two), platform.stores, strict=True):
        for order in (1, -1):  # of those without rows, which nothing but their ids tells apart
            ids = [u.upload_id for u in sealed.uploads][:2][::order]
            assert store.seals.seal("links", [*ids, one.uploads[2].upload_id]) == one.digest
            if blocks == "adtree":  # dummies: an order of their own
                break
    assert [u.owner for u in one.uploads][-1] == "bob"
    assert [u.identity for u in one.uploads] == [u.identity for u in two.uploads]
    assert platform.records("links").shape[0] == one.m
    if blocks == "none":
        assert (one.m, {u.rows for u in one.uploads}) == (20, {0, 20})
        answer(platform, one.m)
        with platform.owner("ann") as owner:
            assert owner.result("links").partners_ == []
        with platform.owner("bob") as owner:
            assert owner.result("links").partners_ == [0] * 20


def answer(platform, m):
    """The result of a job that has found nothing."""
    halves = split_values([0] * m, 1 << 64)
    for half, store in zip(halves, platform.stores, strict=True):
        for state in (JobState.PREPARING, JobState.RUNNING):
            store.jobs.transition("links", state)
        outputs = dict.fromkeys(("partners", "links1"), half)
        store.results.save("links", ResultShare({"owners": 3}, {}, outputs))
        store.jobs.transition("links", JobState.DONE)


def test_other_kinds_of_jobs_need_records(platform):
    with platform.owner() as owner, pytest.raises(InputError, match="holds no records"):
        owner.upload("clinic", np.empty((0, 3)), progress=False)
    client, spec = platform.client("ann"), platform.stores[0].datasets.spec("clinic")
    with pytest.raises(RefusedError, match="must have 1 to"):
        client.call("begin", Begin("clinic", spec.digest, "0" * 32, 0), reply=UploadState)
    client.close()


def test_an_estimator_links_nothing_with_nobody(threads):
    some = np.array([[1.0, 2.0], [3.0, 4.0]])
    for tables in ([NONE, some], [some, NONE], [NONE, NONE]):
        model = RecordLinkage(theta=0, bounds=BOUNDS, platform=threads).fit(tables)
        assert model.links_.values.tolist() == []
        assert model.partners_ == [[0] * len(table) for table in tables]
    link = RecordLinkage(theta=0, bounds=BOUNDS)
    for dedup in (None, link):
        with pytest.raises(ValueError, match=r"0 sample|no records"):
            SecureKMeans(1, bounds=BOUNDS, dedup=dedup, platform=threads).fit([NONE, some])


def test_an_estimator_of_texts_takes_a_frame_without_rows(threads):
    rule = rules.all_of([rules.exact("code"), rules.edit("name", max=1)])
    texts = {"name": 6, "code": ("digits", 3)}
    some = pd.DataFrame({"name": ["anna", "bo"], "code": ["101", "102"]})
    model = RecordLinkage(rule=rule, texts=texts, platform=threads).fit([some.iloc[:0], some])
    assert model.partners_ == [[], [0, 0]]


def test_nothing_can_be_estimated_and_looked_at():
    spec = linkage()
    assert estimate(spec, [0, 100]).pairs >= 0
    seen = preview(spec, NONE)
    assert (seen.rows, seen.sampled) == (0, 0)
    assert seen.dummies > 0


def test_a_file_of_names_alone_has_no_rows(tmp_path):
    file = tmp_path / "none.csv"
    file.write_text("x,y\n")
    assert read(file, empty=True).values.shape == (0, 2)
    assert read(file, texts=("y",), empty=True).texts == {"y": []}
    for reader in (read, partial(read, texts=("x", "y"))):
        with pytest.raises(InputError, match="holds no records"):
            reader(file)
        file.write_text("")
        with pytest.raises(InputError, match=r"is empty|holds no records"):
            reader(file, empty=True)
        with pytest.raises(InputError, match="holds no records"):
            reader(file, empty=True, header=False)
        file.write_text("x,y\n")
