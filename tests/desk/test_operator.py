"""An operator's screens over HTTP, and those of a cloud, against real gateways and stores."""

import re
from dataclasses import replace
from functools import partial

import pytest

from client.desk.cloud_screens import CloudScreens
from client.desk.operator_screens import OperatorScreens
from client.desk.study_form import FORMS, sample_sketch
from ppodc import kinds
from ppodc.linkage.joined import sample as joined
from ppodc.service.deployment import members
from ppodc.spec import Spec
from tests.desk.running import running
from tests.desk.world import OWNERS, patients, spec_of
from tests.harness.patience import wait_for


@pytest.fixture(scope="module")
def operator(clouds):
    with running(partial(OperatorScreens, clouds.config("operator"))) as desk:
        desk.open()
        yield desk


@pytest.fixture(scope="module")
def keys(clouds):
    return dict(members(clouds.home.folder).keys)


def fields(sketch, **changed):
    """The form of a sketch, as a page sends it."""
    columns = sketch.columns
    return {
        "name": sketch.name,
        "kind": sketch.kind,
        "key": [key.place for key in sketch.keys],
        "value": [key.value for key in sketch.keys],
        "more": sketch.more,
        "ub": sketch.ub,
        "least": sketch.least,
        "column-name": [column.name for column in columns],
        "column-low": [column.low for column in columns],
        "column-high": [column.high for column in columns],
        "column-words": [column.words for column in columns],
        "column-use": [column.use for column in columns] if sketch.joins else [],
        "column-held": [column.held_by for column in columns] if sketch.joins else [],
        "owner-name": [name for name, _ in sketch.owners],
        "owner-key": [key for _, key in sketch.owners],
        **changed,
    }


def sample_of(kind, owners):
    """The text that `ppodc sample-spec` prints; of joined totals there is none of its own."""
    if kind == "join-totals":
        head, tail = sample_of("join", owners).split("[job]")
        return f'{head}[job]\nkind = "totals"\ncross = true\n' + tail[tail.index("[join]") :]
    return joined.sample(owners) if kind == "join" else kinds.named(kind).sample


@pytest.mark.parametrize("kind", list(FORMS))
def test_a_new_study_of_every_kind(kind, operator, clouds, keys):
    page = operator.get(f"/new?kind={kind}")
    sample = sample_of(kind, list(keys))
    for key in re.findall(r"(?m)^([a-z_]+) = ", sample.partition("[job]")[2]):
        assert key in ("kind", "least", "keys") or f"<code>{key}</code>" in page
    sketch = replace(sample_sketch(kind, keys), name=f"made-{kind}")
    expected = replace(Spec.loads(sample), name=f"made-{kind}", owners=members(clouds.home.folder))
    live = operator.post("/new/look", **fields(sketch)).text
    assert expected.digest in live
    saved = operator.post("/new", do="save", **fields(sketch))
    assert Spec.loads(saved.text).digest == expected.digest
    if kind == "local":
        return  # is for a collector
    made = operator.post("/new", do="make", **fields(sketch))
    assert made.headers.get("location", "").endswith(f"/study/made-{kind}"), made.text
    page = operator.get(f"/study/made-{kind}")
    assert expected.digest in page
    for store in clouds.stores:
        assert store.datasets.spec(f"made-{kind}").digest == expected.digest


def test_a_fault_is_told_while_typing_and_there_is_no_number(operator, keys):
    sketch = replace(sample_sketch("kmeans", keys), name="faulty")
    first = replace(sketch.columns[0], low="100", high="10")
    wrong = replace(sketch, columns=(first, *sketch.columns[1:]))
    live = operator.post("/new/look", **fields(wrong)).text
    assert "low must be less than high" in live
    assert "there is none until all is correct" in live
    refused = operator.post("/new", do="make", **fields(wrong))
    assert refused.status == 400
    assert "faulty" not in operator.get("/")


def test_lines_are_added_and_removed(operator, keys):
    sketch = sample_sketch("totals", keys)
    more = operator.post("/new", do="add", **fields(sketch)).text
    assert more.count('name="column-name"') == len(sketch.columns) + 1
    assert operator.post("/new", do="add-owner", **fields(sketch)).text.count("owner-key") == 3


def test_hostile_text_in_a_form_is_shown_as_text(operator, keys):
    bad = '"><script>alert(1)</script>'
    sketch = replace(sample_sketch("kmeans", keys), name=bad)
    for path in ("/new/look", "/new"):
        page = operator.post(path, **fields(sketch, least=bad, more=bad, value=[bad] * 40)).text
        assert "<script>alert" not in page


def test_uploads_are_left_out_and_studies_deleted_by_a_typed_name(operator, clouds):
    spec = clouds.create(replace(spec_of("totals"), name="to-delete"))
    with clouds.owner(OWNERS[0]) as owner:
        receipt = owner.upload("to-delete", patients(5, 0), spec=spec)
    page = operator.get("/study/to-delete")
    assert receipt.upload_id[:12] in page
    assert operator.post("/study/to-delete/leave-out", upload=receipt.upload_id).status == 303
    assert "left out" in operator.get("/study/to-delete")
    wrong = operator.post("/study/to-delete/delete", name="to-delet")
    assert wrong.status == 400
    assert not clouds.stores[0].datasets.deleted("to-delete")
    assert operator.post("/study/to-delete/delete", name="to-delete").status == 303
    assert all(store.datasets.deleted("to-delete") for store in clouds.stores)
    ledger = operator.get("/ledger?study=to-delete")
    assert "Operator operator left out rows of north" in ledger
    assert "Operator operator deleted the study" in ledger


def test_a_study_that_only_one_cloud_has_stands_out(operator, clouds):
    spec = replace(spec_of("totals"), name="half-made", owners=members(clouds.home.folder))
    clouds.stores[1].datasets.create(spec)
    page = operator.get("/")
    row = re.search(r"<tr><th[^>]*><a[^>]*><bdi>half-made.*?</tr>", page, re.DOTALL)[0]
    assert "not here" in row
    assert "badge stop" in row


# ---------------------------------------------------------------------------------------- cloud


@pytest.fixture(scope="module")
def cloud(clouds):
    with running(partial(CloudScreens, clouds.config("cloud1"))) as desk:
        desk.open()
        yield desk


def test_a_cloud_shows_its_jobs_and_no_secret(cloud, clouds):
    spec = clouds.create(replace(spec_of("kmeans"), name="watched"))
    for number, name in enumerate(OWNERS):
        with clouds.owner(name) as owner:
            owner.upload("watched", patients(20, number), spec=spec)
    assert "watched" in cloud.get("/")
    page = cloud.get("/job/watched")
    assert "Fix the rows and run" in page
    offered = re.search(r'data-poll="[^"]*(/job/watched/state[^"]*)"', page)[1]
    assert cloud.call("GET", offered).headers.get("x-desk-next") is None
    clouds.run("watched")
    assert cloud.call("GET", offered).headers["x-desk-next"].endswith("/job/watched")
    page = cloud.get("/job/watched")
    assert "Fix the rows and run" not in page
    assert ">done<" in page
    assert "Seconds per iteration" in page
    assert "names no health address" in cloud.get("/state")


def test_a_cloud_seals_by_the_command(cloud, clouds):
    spec = clouds.create(replace(spec_of("totals"), name="to-seal"))
    for number, name in enumerate(OWNERS):
        with clouds.owner(name) as owner:
            owner.upload("to-seal", patients(5, number), spec=spec)
    assert cloud.post("/job/to-seal/do", do="resume").status == 400
    assert cloud.post("/job/to-seal/do", do="seal").status == 303
    wait_for(lambda: "sealed: 10 records" in cloud.get("/job/to-seal"))
    assert ">sealed<" in cloud.get("/job/to-seal/state")


def test_cancelling_wants_the_name(cloud, clouds):
    clouds.create(replace(spec_of("totals"), name="to-cancel"))
    refused = cloud.post("/job/to-cancel/do", do="cancel")
    assert refused.status == 400, refused.text
    assert cloud.post("/job/to-cancel/do", do="cancel", name="to-cancel").status == 303
    wait_for(lambda: ">cancelled<" in cloud.get("/job/to-cancel/state"))


def test_a_collector_runs_a_job_in_a_process_of_its_own(single):
    spec = single.create(spec_of("local"))
    for number, name in enumerate(OWNERS):
        with single.owner(name) as owner:
            owner.upload(spec.name, patients(40, number), spec=spec)
    with running(partial(CloudScreens, single.config("collector"))) as desk:
        desk.open()
        assert desk.post(f"/job/{spec.name}/do", do="run").status == 303
    # the desk is closed; the job is not
    wait_for(lambda: single.stores[0].jobs.get(spec.name).state == "done")


def test_the_second_cloud_only_looks(clouds):
    with running(partial(CloudScreens, clouds.config("cloud2"))) as desk:
        desk.open()
        clouds.create(replace(spec_of("totals"), name="followed"))
        assert "Jobs are started, resumed and cancelled at cloud 1" in desk.get("/job/followed")
        assert desk.post("/job/followed/do", do="run").status == 400
