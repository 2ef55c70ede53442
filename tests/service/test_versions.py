"""Stores of older and newer versions: migrated with nothing lost, or refused with advice.

`version_1/` holds what the last program of version 1 had written, as SQL: a finished job with
labels, a running one with two checkpoints, and a dataset with a finished and an unfinished upload.
"""

import sqlite3
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from ppodc.errors import InputError, StoreError
from ppodc.records.output_half import OutputHalf, ResultHalf
from ppodc.records.sharing import combine, split
from ppodc.service.job_state import JobState
from ppodc.service.store import Store, versions
from ppodc.service.store.ledger import Entry

FIRST, SECOND, THIRD, FOURTH, FIFTH = (f"{number:032x}" for number in range(1, 6))
ROWS = {FIRST: 3, SECOND: 2, THIRD: 4, FOURTH: 2, FIFTH: 5}


def records(upload_id: str) -> np.ndarray:
    return (np.arange(2 * ROWS[upload_id]).reshape(-1, 2) * 7 + int(upload_id, 16)) % 101


def share_and_seed(upload_id: str) -> tuple[np.ndarray, bytes]:
    return split(records(upload_id), bytes([int(upload_id, 16)]) * 32)


def old_share(upload_id: str) -> np.ndarray:
    """As owners made it then: masks had 63 bits."""
    values = records(upload_id).astype(np.uint64)
    return (share_and_seed(upload_id)[0] - values) % np.uint64(1 << 63) + values


def write_version_1(folder: Path, role: str) -> None:
    """The store as it lay on disk: the database and, at cloud 1, the chunk files."""
    folder.mkdir()
    with sqlite3.connect(folder / "store.sqlite") as database:
        written = Path(__file__).with_name("version_1") / f"{role}.sql"
        database.executescript(written.read_text())
        chunks = database.execute("SELECT * FROM chunk").fetchall()
    for upload_id, first, count, digest in chunks:
        path = folder / "uploads" / upload_id / f"{first}-{digest}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(old_share(upload_id)[first : first + count].tobytes())


def change(folder: Path, statement: str, *values: object) -> list[tuple]:
    with sqlite3.connect(folder / "store.sqlite") as database:
        return database.execute(statement, values).fetchall()


def dump(folder: Path) -> list[str]:
    with sqlite3.connect(folder / "store.sqlite") as database:
        return list(database.iterdump())


@pytest.fixture
def folders(tmp_path):
    for role in ("cloud1", "cloud2"):
        write_version_1(tmp_path / role, role)
    return tmp_path / "cloud1", tmp_path / "cloud2"


@pytest.fixture
def stores(folders):
    with Store.open(folders[0], "cloud1") as first, Store.open(folders[1], "cloud2") as second:
        yield first, second


def test_records_of_version_1_are_exact(stores):
    for dataset, order in (("ended", [SECOND, FIRST]), ("running", [THIRD])):
        for store in stores:
            sealed = store.seals.sealed(dataset)
            assert [upload.upload_id for upload in sealed.uploads] == order
            assert store.seals.seal(dataset, order) == sealed.digest
        m = sealed.m
        shares = [store.seals.rows(dataset, 0, m) for store in stores]
        assert np.array_equal(combine(*shares), np.concatenate([records(o) for o in order]))


@pytest.mark.parametrize("side", [0, 1])
def test_a_finished_job_of_version_1_keeps_its_result(stores, side):
    store = stores[side]
    job = store.jobs.get("ended")
    assert (job.state, job.iteration, job.suite, job.pairs) == (JobState.DONE, 3, "shares", 2)
    values = OutputHalf.of(1 << 64, [100 * side + value for value in range(6)])
    expected = ResultHalf({"n_iter": 3, "converged": True}, {"clusters": values})
    assert store.results.half("ended") == expected
    labels = {upload_id: store.results.own_rows("ended", "labels", upload_id).values
              for upload_id in (SECOND, FIRST)}  # fmt: skip
    start = (1 << 70) + side
    assert labels == {SECOND: [start, start + 1], FIRST: [start + 2, start + 3, start + 4]}
    assert store.jobs.checkpoints("ended") == {2: "", 3: ""}
    assert store.jobs.checkpoint("ended", 3).stop


@pytest.mark.parametrize("side", [0, 1])
def test_a_running_job_of_version_1_can_go_on(stores, side):
    store = stores[side]
    job = store.jobs.get("running")
    assert (job.state, job.iteration, job.suite) == (JobState.RUNNING, 5, "paillier")
    assert job.cancel_requested
    assert not store.results.has("running")
    assert store.jobs.checkpoints("running") == {4: "", 5: ""}
    for iteration in (4, 5):
        checkpoint = store.jobs.checkpoint("running", iteration)
        assert (checkpoint.stop, list(checkpoint.arrays)) == (False, ["clusters"])
        expected = np.full((2, 4, 3), iteration + side, np.uint8)
        assert checkpoint.arrays["clusters"].dtype == np.uint8
        assert np.array_equal(checkpoint.arrays["clusters"], expected)
    store.jobs.drop_checkpoints_after("running", 4)
    assert store.jobs.checkpoints("running") == {4: ""}
    store.jobs.transition("running", JobState.PREPARING)


def test_an_unfinished_upload_of_version_1_goes_on(stores):
    first, second = stores
    share, seed = share_and_seed(FIFTH)
    for store in stores:
        waiting = {upload.upload_id: upload for upload in store.uploads.of("waiting")}
        assert (waiting[FOURTH].owner, waiting[FOURTH].committed) == ("bob", True)
        assert (waiting[FIFTH].owner, waiting[FIFTH].committed) == ("ann", False)
    assert first.uploads.missing(FIFTH) == [(2, 3)]
    assert second.uploads.missing(FIFTH) == [(0, 5)]
    first.uploads.put_chunk(FIFTH, 0, old_share(FIFTH)[:2])  # is there already
    first.uploads.put_chunk(FIFTH, 2, share[2:])  # from this release on
    second.uploads.put_seed(FIFTH, seed)
    for store in stores:
        store.uploads.commit(FIFTH)
        store.seals.seal("waiting", [FOURTH, FIFTH])
    shares = [store.seals.rows("waiting", 0, 7) for store in stores]
    together = np.concatenate([records(FOURTH), records(FIFTH)])
    assert np.array_equal(combine(*shares), together)


def test_the_ledger_of_version_1_goes_on(folders):
    before = change(folders[0], "SELECT * FROM ledger ORDER BY number")
    with Store.open(folders[0], "cloud1") as store:
        assert store.ledger.entries() == [Entry(*row) for row in before]
        store.ledger.append("labels half given", "ended", {"owner": "ann"})
        found = store.ledger.verify()
    assert (found.broken, found.entries) == (None, len(before) + 1)


def test_migration_happens_once_and_leaves_no_old_table(folders):
    for _ in range(2):
        Store.open(folders[0], "cloud1").close()
    tables = change(folders[0], "SELECT name FROM sqlite_schema WHERE type = 'table'")
    fresh = folders[0].with_name("fresh")
    Store.open(fresh, "cloud1").close()
    assert sorted(tables) == sorted(
        change(fresh, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    )
    assert change(folders[0], "SELECT * FROM about") == [("cloud1", 5)]


_BACK_TO_4 = """
DROP TABLE outline;
ALTER TABLE upload DROP COLUMN outline;
UPDATE about SET version = 4
"""
_BACK_TO_3 = (
    _BACK_TO_4
    + """;
DROP TABLE figure;
UPDATE about SET version = 3
"""
)
_BACK_TO_2 = (
    _BACK_TO_3
    + """;
DROP INDEX upload_of_owner;
ALTER TABLE upload DROP COLUMN begun;
ALTER TABLE upload DROP COLUMN removed;
ALTER TABLE dataset DROP COLUMN deleted;
ALTER TABLE checkpoint DROP COLUMN run;
ALTER TABLE result DROP COLUMN run;
UPDATE about SET version = 2
"""
)


@pytest.mark.parametrize("back", [_BACK_TO_2, _BACK_TO_3, _BACK_TO_4])
def test_a_store_of_before_loses_nothing(folders, back):
    def content(store):
        results = [store.results.half("ended"), store.results.run("ended")]
        uploads = [store.uploads.of(dataset.name) for dataset in store.datasets.all()]
        jobs = [store.jobs.get(dataset.name) for dataset in store.datasets.all()]
        return results, uploads, jobs, store.jobs.checkpoints("running"), store.ledger.entries()

    for folder, role in zip(folders, ("cloud1", "cloud2"), strict=True):
        with Store.open(folder, role) as store:
            before = content(store)
        tables = dump(folder)
        with sqlite3.connect(folder / "store.sqlite") as database:
            database.executescript(back)
        assert dump(folder) != tables
        with Store.open(folder, role) as store:
            assert content(store) == before
            assert store.removal.expire(timedelta(days=1)) == []  # it counts as begun just now
            assert store.removal.expire(timedelta()) == [FIFTH]


def test_an_interrupted_migration_leaves_version_1(folders, monkeypatch):
    before = dump(folders[0])
    with monkeypatch.context() as patch:
        broken = (*versions._OLDER[1], "SELECT * FROM nothing")
        patch.setitem(versions._OLDER, 1, broken)
        with pytest.raises(sqlite3.OperationalError, match="nothing"):
            Store.open(folders[0], "cloud1")
    assert dump(folders[0]) == before
    with Store.open(folders[0], "cloud1") as store:
        assert store.jobs.checkpoints("running") == {4: "", 5: ""}


def test_a_store_of_the_other_cloud_is_not_touched(folders):
    with pytest.raises(StoreError, match=r"store of cloud1, and this is cloud2\. Name another"):
        Store.open(folders[0], "cloud2")
    assert change(folders[0], "SELECT * FROM about") == [("cloud1", 1)]


@pytest.mark.parametrize("version", [6, 99])
def test_a_store_of_another_version_is_refused_with_advice(folders, version):
    change(folders[0], "UPDATE about SET version = ?", version)
    with pytest.raises(StoreError, match=f"version {version}.*Install the release"):
        Store.open(folders[0], "cloud1")


def test_a_store_whose_making_was_killed_in_version_1(folders):
    schema = [line for line in dump(folders[0]) if not line.startswith("INSERT")]
    folder = folders[0].with_name("killed")
    folder.mkdir()
    with sqlite3.connect(folder / "store.sqlite") as database:
        database.executescript("\n".join(schema))
    with Store.open(folder, "cloud1") as store:
        assert store.datasets.all() == []
        with pytest.raises(InputError, match="no dataset"):
            store.results.half("ended")
