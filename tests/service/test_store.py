"""The store: idempotent uploads, sealing, exact rows, kills and full disks."""

import os
import secrets
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from ppodc.errors import InputError, StoreError
from ppodc.records.sharing import combine, mask, split
from ppodc.service.job_state import JobState
from ppodc.service.store import Store, chunks
from ppodc.service.store.chunks import save_chunk
from ppodc.spec import Spec
from tests.service.data import make_spec, put_upload, records, sealed_rows, stores


class KilledError(BaseException):
    """As if the process had ended here."""


def begin(store: Store, rows: int, owner="ann", dataset="clinic") -> str:
    upload_id = secrets.token_hex(16)
    store.uploads.begin(dataset, owner, upload_id, rows)
    return upload_id


def test_sealed_rows_of_both_clouds_are_the_records(two):
    first, second = two
    parts = [records(rows, case=rows) for rows in (5, 1, 12)]
    ids = [put_upload(first, second, "clinic", f"o{i}", part) for i, part in enumerate(parts)]
    order = [ids[2], ids[0], ids[1]]
    assert first.seals.seal("clinic", order) == second.seals.seal("clinic", order)
    assert first.seals.sealed("clinic") == second.seals.sealed("clinic")
    together = np.concatenate([parts[2], parts[0], parts[1]])
    for start, count in [(0, 18), (0, 1), (3, 10), (11, 3), (17, 1), (18, 0)]:
        shares = [sealed_rows(store, "clinic", start, count) for store in two]
        assert np.array_equal(combine(*shares), together[start : start + count])
    for start, count in [(-1, 1), (0, 19), (18, 1)]:
        with pytest.raises(InputError, match="exceed"):
            sealed_rows(first, "clinic", start, count)


def test_chunks_come_in_any_order_and_repeat_harmlessly(two):
    first = two[0]
    share, _ = split(records(10))
    upload_id = begin(first, 10)
    first.uploads.put_chunk(upload_id, 7, share[7:])
    first.uploads.put_chunk(upload_id, 2, share[2:4])
    assert first.uploads.missing(upload_id) == [(0, 2), (4, 3)]
    first.uploads.put_chunk(upload_id, 2, share[2:4])
    with pytest.raises(InputError, match="5 rows"):
        first.uploads.commit(upload_id)
    first.uploads.put_chunk(upload_id, 0, share[:2])
    first.uploads.put_chunk(upload_id, 4, share[4:7])
    assert first.uploads.missing(upload_id) == []
    first.uploads.commit(upload_id)
    first.uploads.commit(upload_id)
    first.uploads.begin("clinic", "ann", upload_id, 10)
    first.uploads.put_chunk(upload_id, 4, share[4:7])
    assert first.datasets.get("clinic").uploads == 1
    assert first.datasets.get("clinic").rows == 10
    first.seals.seal("clinic", [upload_id])
    assert np.array_equal(sealed_rows(first, "clinic", 0, 10), share)
    assert np.array_equal(sealed_rows(first, "clinic", 3, 5), share[3:8])


def test_contradictions_are_refused(two):
    first, second = two
    share, seed = split(records(6))
    upload_id = begin(first, 6)
    first.uploads.put_chunk(upload_id, 0, share[:4])
    with pytest.raises(InputError, match="other content"):
        first.uploads.put_chunk(upload_id, 0, share[2:6])
    with pytest.raises(InputError, match="other content"):
        first.uploads.put_chunk(upload_id, 3, share[3:6])
    with pytest.raises(InputError, match="beyond"):
        first.uploads.put_chunk(upload_id, 5, share[:2])
    with pytest.raises(InputError, match="rows of 3"):
        first.uploads.put_chunk(upload_id, 4, share[4:, :2])
    with pytest.raises(InputError, match="taken"):
        first.uploads.begin("clinic", "bob", upload_id, 6)
    with pytest.raises(InputError, match="taken"):
        first.uploads.begin("clinic", "ann", upload_id, 7)
    with pytest.raises(InputError, match="cloud 1 takes the rows"):
        first.uploads.put_seed(upload_id, seed)
    other = begin(second, 6)
    second.uploads.put_seed(other, seed)
    second.uploads.put_seed(other, seed)
    with pytest.raises(InputError, match="another seed"):
        second.uploads.put_seed(other, bytes(32))
    with pytest.raises(InputError, match="cloud 2 takes a seed"):
        second.uploads.put_chunk(other, 0, share)


@pytest.mark.parametrize("upload_id", ["", "../../../etc", "A" * 32, "0" * 31, "0" * 33])
def test_upload_ids_are_checked(two, upload_id):
    with pytest.raises(InputError, match="hexadecimal"):
        two[0].uploads.begin("clinic", "ann", upload_id, 1)


def test_unknown_names_are_refused(two):
    first = two[0]
    for call in (
        first.datasets.get,
        first.datasets.spec,
        first.uploads.of,
        first.seals.sealed,
        first.jobs.get,
        first.jobs.checkpoints,
        first.results.has,
        first.results.half,
    ):
        with pytest.raises(InputError, match="no dataset"):
            call("nothing")
    with pytest.raises(InputError, match="Begin it first"):
        first.uploads.missing("0" * 32)


def test_after_sealing_nothing_is_taken(two):
    first, second = two
    upload_id = put_upload(first, second, "clinic", "ann", records(4))
    late = begin(first, 4)
    digest = first.seals.seal("clinic", [upload_id])
    assert first.seals.seal("clinic", [upload_id]) == digest
    share, _ = split(records(4))
    with pytest.raises(InputError, match="no more uploads"):
        begin(first, 4)
    with pytest.raises(InputError, match="no more uploads"):
        first.uploads.put_chunk(late, 0, share)
    with pytest.raises(InputError, match="no more uploads"):
        first.uploads.commit(late)
    with pytest.raises(InputError, match="not complete"):
        first.seals.seal("clinic", [upload_id, late])
    first.uploads.begin("clinic", "ann", upload_id, 4)  # a finished one is harmless


def test_sealing_needs_committed_uploads(two):
    first, second = two
    upload_id = put_upload(first, second, "clinic", "ann", records(4))
    for ids, reason in [
        ([], "no uploads"),
        ([upload_id, upload_id], "twice"),
        ([upload_id, begin(first, 2)], "not complete"),
        (["0" * 32], "Begin it first"),
    ]:
        with pytest.raises(InputError, match=reason):
            first.seals.seal("clinic", ids)
    assert first.jobs.get("clinic").state == JobState.CREATED


def test_dataset_identity(two):
    first = two[0]
    first.datasets.create(make_spec())
    with pytest.raises(InputError, match="another spec"):
        first.datasets.create(make_spec(k=1))
    assert first.datasets.spec("clinic") == make_spec()
    assert isinstance(first.datasets.spec("clinic"), Spec)
    assert [info.name for info in first.datasets.all()] == ["clinic"]


def test_everything_survives_reopening(two, tmp_path):
    first, second = two
    values = records(9)
    upload_id = put_upload(first, second, "clinic", "ann", values)
    for store in two:
        store.seals.seal("clinic", [upload_id])
        store.close()
    again = stores(tmp_path)
    shares = [sealed_rows(store, "clinic", 0, 9) for store in again]
    assert np.array_equal(combine(*shares), values)
    with pytest.raises(StoreError, match="store of cloud1"):
        Store.open(tmp_path / "c1", "cloud2")


def test_two_processes_worth_of_stores_see_each_other(two, tmp_path):
    first, second = two
    beside = Store.open(tmp_path / "c1", "cloud1")
    upload_id = put_upload(first, second, "clinic", "ann", records(4))
    assert beside.uploads.of("clinic")[0].committed
    beside.seals.seal("clinic", [upload_id])
    assert first.jobs.get("clinic").state == JobState.SEALED


def test_files_are_private(two, tmp_path):
    put_upload(*two, "clinic", "ann", records(4))
    for path in tmp_path.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_damaged_chunk_is_noticed(two, tmp_path):
    first, second = two
    upload_id = put_upload(first, second, "clinic", "ann", records(4))
    first.seals.seal("clinic", [upload_id])
    (chunk,) = (tmp_path / "c1" / "uploads" / upload_id).iterdir()
    data = bytearray(chunk.read_bytes())
    data[5] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        sealed_rows(first, "clinic", 0, 4)


def test_a_kill_between_file_and_database_loses_the_chunk_alone(two, tmp_path, monkeypatch):
    first = two[0]
    share, _ = split(records(6))
    upload_id = begin(first, 6)

    def killed(*arguments):
        save_chunk(*arguments)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(chunks, "save_chunk", killed)
        with pytest.raises(KilledError):
            first.uploads.put_chunk(upload_id, 0, share[:4])
    (left,) = (tmp_path / "c1" / "uploads" / upload_id).iterdir()
    assert first.uploads.missing(upload_id) == [(0, 6)]
    other = share + np.uint64(1)  # what the dead file holds does not stand in the way
    first.uploads.put_chunk(upload_id, 0, other[:4])
    first.uploads.put_chunk(upload_id, 4, other[4:])
    first.uploads.commit(upload_id)
    first.seals.seal("clinic", [upload_id])
    assert np.array_equal(sealed_rows(first, "clinic", 0, 6), other)
    assert left.exists()


def test_parallel_uploads_into_one_store(two):
    first, second = two
    errors = []

    def one(owner):
        try:
            for _ in range(3):
                put_upload(first, second, "clinic", owner, records(5))
        except Exception as error:  # noqa: BLE001 - shown below
            errors.append(error)

    threads = [threading.Thread(target=one, args=(f"o{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert first.datasets.get("clinic").rows == second.datasets.get("clinic").rows == 120
    assert first.ledger.verify().broken is None


KILLED = """
import sys, numpy as np
from ppodc.service.store import Checkpoint, Store
from ppodc.records.sharing import split
store = Store.open(sys.argv[1], "cloud1")
for i in range(10**6):
    upload_id = f"{i:032x}"
    share, _ = split(np.full((4, 3), i % 100), i.to_bytes(32, "big"))
    store.uploads.begin("clinic", "ann", upload_id, 4)
    store.uploads.put_chunk(upload_id, 0, share[:2])
    store.uploads.put_chunk(upload_id, 2, share[2:])
    store.uploads.commit(upload_id)
    print(i, flush=True)
"""


@pytest.mark.parametrize("commits", [0, 3, 7])
def test_sigkill_loses_nothing_committed(two, tmp_path, commits):
    two[0].close()
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "c1")], stdout=subprocess.PIPE, text=True
    )
    last = -1
    while last < commits:
        last = int(child.stdout.readline())
    time.sleep(0.002 * commits)  # somewhere inside the next upload
    os.kill(child.pid, signal.SIGKILL)
    told = [last, *map(int, child.stdout.read().split())]
    child.wait()
    store = Store.open(tmp_path / "c1", "cloud1")
    done = [upload.upload_id for upload in store.uploads.of("clinic") if upload.committed]
    assert len(done) >= told[-1] + 1
    assert done == [f"{i:032x}" for i in range(len(done))]
    store.seals.seal("clinic", done)
    for i in range(len(done)):
        expected = mask(i.to_bytes(32, "big"), 0, 4, 3) + np.uint64(i % 100)
        assert np.array_equal(sealed_rows(store, "clinic", 4 * i, 4), expected)
    assert store.ledger.verify().broken is None
    events = [entry.event for entry in store.ledger.entries()]
    assert events.count("upload committed") == len(done)
    store.close()


FULL = """
import sys
from ppodc.errors import DiskFullError
from ppodc.service.store import Checkpoint, Store
from ppodc.records.sharing import split
from tests.service.data import make_spec, records
store = Store.open(sys.argv[1], "cloud1")
store.datasets.create(make_spec())
share, _ = split(records(2000))
done = 0
try:
    for i in range(10**6):
        upload_id = f"{i:032x}"
        store.uploads.begin("clinic", "ann", upload_id, len(share))
        store.uploads.put_chunk(upload_id, 0, share)
        store.uploads.commit(upload_id)
        done = i + 1
except DiskFullError as error:
    print(done, error)
"""


def test_a_full_disk_is_told_and_keeps_what_was_there(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        run = subprocess.run(
            [sys.executable, "-c", FULL, str(folder / "c1")], capture_output=True, text=True
        )
        done, text = run.stdout.split(maxsplit=1)
        assert "the disk is full" in text
        assert int(done) > 2
        for leftover in folder.rglob(".*"):  # a write that failed leaves nothing behind
            pytest.fail(f"{leftover} was left")
        _free_space(folder)
        store = Store.open(folder / "c1", "cloud1")
        committed = [upload for upload in store.uploads.of("clinic") if upload.committed]
        assert len(committed) == int(done)
        assert store.ledger.verify().broken is None
        store.seals.seal("clinic", [upload.upload_id for upload in committed])
        assert len(sealed_rows(store, "clinic", 0, 2000 * int(done))) == 2000 * int(done)
        store.close()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _free_space(folder):
    subprocess.run(["mount", "-o", "remount,size=8m", str(folder)], check=True)


def test_a_second_connection_of_a_process_costs_the_first_nothing(tmp_path):
    """Rows of the first connection stay although another process closes the same file."""
    with Store.open(tmp_path, "cloud1") as first, Store.open(tmp_path, "cloud1"):
        code = (
            "import sys; from ppodc.service.store import Store\n"
            "with Store.open(sys.argv[1], 'cloud1') as s: s.figures.add(seen=1)"
        )
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
        first.figures.add(written=1)
        with Store.open(tmp_path, "cloud1") as third:
            assert third.figures.all() == {"seen": 1, "written": 1}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    with Store.open(tmp_path, "cloud1") as again:
        assert again.figures.all() == {"seen": 2, "written": 1}
