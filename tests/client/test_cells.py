"""Uploads sorted into cells: charged before they leave, the same when they come again, checked."""

from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from client.sending import Sender
from ppodc.errors import InputError, RefusedError
from ppodc.linkage.blocks import cell_space, passes
from ppodc.linkage.blocks.key_blocks import by_key
from ppodc.linkage.owner import owner_side
from ppodc.privacy.budget import POPULATION, PrivacyBudget
from ppodc.service.config import OwnerConfig, load
from ppodc.service.messages import Begin, UploadState
from ppodc.service.quotas import Quotas
from ppodc.service.sealed_uploads import Upload, seal_digest
from ppodc.service.store.uploads import Uploads
from ppodc.spec import Spec
from tests.client.two_gateways import Platform


def linkage(name="links", **change) -> Spec:
    job = {
        "kind": "linkage",
        "rule": "sse",
        "weights": [1, 1],
        "limit": 2,
        "blocks": "adtree",
        "epsilon": 4,
        "delta": "1/1000",
        **change,
    }
    columns = [{"name": n, "low": 0, "high": 63} for n in ("x", "y")]
    return Spec.from_dict({"name": name, "schema": {"ub": 63, "columns": columns}, "job": job})


def rows(count: int, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 64, (count, 2)).astype(float)


def spent(platform: Platform, name="ann") -> list[float]:
    config = load(platform.deployment.party(name).config, OwnerConfig)
    budget = PrivacyBudget(config.privacy / "budget.json")
    return [float(drawing.cost[0]) for drawing in budget.drawings(POPULATION)]


def outlines(platform: Platform, name="links") -> list[dict]:
    return [store.seals.sealed(name).outlines for store in platform.stores]


def test_an_upload_with_its_cells_reaches_both_clouds_and_is_charged_once(platform):
    platform.create(linkage())
    with platform.owner() as owner:
        receipt = owner.upload("links", rows(50), progress=False)
        again = owner.upload("links", rows(50), progress=False)
        assert (receipt.rows, again.repeated) == (50, True)
        assert receipt.privacy.guaranteed.epsilon == 4
        (before,) = platform.stores[0].uploads.of("links")
        assert before.rows > 50  # dummies
        owner.withdraw("links")
        owner.upload("links", rows(50), progress=False)
    assert spent(platform) == [4]  # the same rows have the same cells, whenever they are given
    after = platform.stores[0].uploads.of("links")[-1]
    assert (after.rows, after.outline) == (before.rows, before.outline)
    platform.seal("links")
    (first,), (second,) = (told.values() for told in outlines(platform))
    assert np.array_equal(first, second)
    assert first[:, 0].sum() == after.rows
    assert "epsilon 4" in platform.stores[0].ledger.entries()[-2].detail


def test_an_upload_beyond_the_budget_is_refused_and_nothing_is_sent(platform):
    for number in (1, 2, 3):
        platform.create(linkage(f"links{number}", limit=number))
    with platform.owner() as owner:
        owner.upload("links1", rows(50), progress=False)
        owner.upload("links2", rows(50), progress=False)
    with platform.owner() as owner, pytest.raises(InputError, match="already spent 8 of 10"):
        owner.upload("links3", rows(50), progress=False)
    assert platform.stores[0].uploads.of("links3") == []
    assert spent(platform) == [4, 4]
    with platform.owner() as owner, pytest.raises(InputError, match="below 1/5000"):
        owner.upload("links1", rows(5000), progress=False)  # delta is too large for this many
    with platform.owner() as owner, pytest.raises(InputError, match="column 'x': above"):
        owner.upload("links1", rows(50) + 50, progress=False)
    assert spent(platform) == [4, 4]


def test_a_sealed_dataset_costs_nothing_and_knows_what_it_has(platform):
    platform.create(linkage())
    with platform.owner() as owner:
        owner.upload("links", rows(50), progress=False)
        platform.seal("links")
        assert owner.upload("links", rows(50), progress=False).repeated
        with pytest.raises(RefusedError, match="takes no more uploads"):
            owner.upload("links", rows(50, seed=1), progress=False)
    assert spent(platform) == [4]


def test_more_rows_than_a_cloud_takes_cost_nothing(platform, monkeypatch):
    """Dummies count: 50 rows alone would be taken."""
    platform.create(linkage())
    for quotas in (Quotas(rows=51), Quotas(uploads=1)):
        monkeypatch.setattr(
            Uploads, "room", lambda self, *who, room=Uploads.room, q=quotas: room(self, *who[:2], q)
        )
        with platform.owner() as owner:
            if quotas.uploads == 1:
                owner.upload("links", rows(50), progress=False)
            with pytest.raises((InputError, RefusedError), match="Withdraw an upload"):
                owner.upload("links", rows(50, seed=1), progress=False)
        assert spent(platform) == [4] * (quotas.uploads == 1)
        monkeypatch.undo()


def test_room_counts_rows_that_are_there(platform):
    platform.create(linkage())
    uploads = platform.stores[0].uploads
    with platform.owner() as owner:
        owner.upload("links", rows(50), progress=False)
    there = uploads.of("links")[0].rows
    assert uploads.room("links", "ann", Quotas(rows=1000)) == 1000 - there
    # 5 numbers of 8 bytes a row: two values, real, and two halves of its number
    assert uploads.room("links", "ann", Quotas(megabytes=1)) == 25_000 - there
    assert uploads.room("links", "bob", Quotas(rows=1000)) == 1000
    assert platform.stores[1].uploads.room("links", "ann", Quotas(rows=1000)) == 1000 - there


def test_cells_that_do_not_cover_the_domain_are_refused_before_the_follower_pays(tmp_path):
    form = owner_side(linkage(blocks="adtree-shared", tree_of="bob"))
    values = form.encode(rows(40))
    told = np.array([[0, 64, 0, 32], [0, 64, 32, 63]], np.uint32)
    with pytest.raises(InputError, match="leave a part"):
        form.arrange(values, told, tmp_path, Fraction(10))
    assert PrivacyBudget(tmp_path / "budget.json").drawings() == []
    told[1, 3] = 64
    form.arrange(values, told, tmp_path, Fraction(10))
    assert len(PrivacyBudget(tmp_path / "budget.json").drawings()) == 1


def test_a_tree_of_too_many_cells_costs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(cell_space, "MAX_CELLS", 1)
    form = owner_side(linkage())
    with pytest.raises(InputError, match="smaller eta"):
        form.arrange(form.encode(rows(50)), None, tmp_path, Fraction(10))
    assert PrivacyBudget(tmp_path / "budget.json").drawings() == []


def test_passes_of_too_many_rows_cost_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "_LARGEST", 60)
    spec, keys = linkage(), by_key("x", "y", epsilon=2, delta="1/1000")
    form = owner_side(replace(spec, job=replace(spec.job, blocking=keys)))
    with pytest.raises(InputError, match="60 rows in a pass"):
        form.arrange(form.encode(rows(50)), None, tmp_path, Fraction(10))
    assert PrivacyBudget(tmp_path / "budget.json").drawings() == []


def test_an_upload_that_is_broken_off_goes_on_with_the_same_cells(platform, monkeypatch):
    platform.create(linkage())

    def cut_off(*_arguments, **_options):
        raise ConnectionError

    with monkeypatch.context() as patch, platform.owner() as owner:
        patch.setattr(Sender, "_send_chunks", cut_off)
        with pytest.raises(ConnectionError):
            owner.upload("links", rows(50), progress=False)
    (begun,) = platform.stores[0].uploads.of("links")
    with platform.owner() as owner:
        assert owner.upload("links", rows(50), progress=False).upload_id == begun.upload_id
    assert spent(platform) == [4]


def test_owners_follow_the_cells_of_one_without_its_counts(platform):
    spec = platform.create(linkage(blocks="adtree-shared", tree_of="bob"))
    with platform.owner("ann") as owner, pytest.raises(RefusedError, match="wait for bob"):
        owner.upload("links", rows(40), progress=False)
    assert spent(platform) == []
    for name in ("bob", "ann"):
        with platform.owner(name) as owner:
            owner.upload("links", rows(40, seed=len(name)), progress=False)
    platform.seal("links")
    leader, follower = outlines(platform)[0].values()
    assert np.array_equal(leader[:, 1:], follower[:, 1:])
    extents = spec.form.extents(leader)
    assert extents.shape[1] == leader.shape[1] - 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda cells: cells[:, :1], "do not fit the job"),
        (lambda cells: cells[:0], "1 to 16384 cells"),
        (lambda cells: cells + np.array([1, 0, 0, 0, 0], np.uint32), "add up"),
        (lambda cells: cells + np.array([0, 0, 99, 0, 0], np.uint32), "outside the public"),
        (lambda cells: cells[:, [0, 1, 2, 3, 3]] + [[0, 0, 0, 0, 32], [0] * 4 + [31]], "leave a"),
        (lambda cells: np.concatenate([cells, cells[:1] * [0, 1, 1, 1, 1]]), "into halves"),
        (lambda cells: None, "requires cell counts"),
    ],
)
def test_a_gateway_refuses_cells_that_cannot_be(platform, change, words):
    spec = platform.create(linkage())
    cells = np.array([[3, 0, 64, 0, 32], [4, 0, 64, 32, 64]], np.uint32)
    begin = Begin("links", spec.digest, "0" * 32, 7)
    told = change(cells)
    arrays = () if told is None else (np.ascontiguousarray(told, np.uint32),)
    client = platform.client("ann")
    with pytest.raises(RefusedError, match=words):
        client.call("begin", begin, arrays, reply=UploadState)
    assert client.call("begin", begin, (cells,), reply=UploadState)[0].known
    other = np.ascontiguousarray(cells[::-1])
    with pytest.raises(RefusedError, match="taken by another upload"):
        client.call("begin", begin, (other,), reply=UploadState)
    client.close()


def test_uploads_whose_cells_differ_between_the_clouds_are_not_the_same():
    """The identity is what both clouds compare before they seal."""
    one = Upload("0" * 32, "links", "ann", 7, True, False, "", "a" * 64)
    two = msgspec.structs.replace(one, outline="b" * 64)
    assert one.identity != two.identity
    assert seal_digest("0" * 64, [one]) != seal_digest("0" * 64, [two])
