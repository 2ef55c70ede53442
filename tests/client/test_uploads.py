"""Owners' uploads: exact, once, whatever is interrupted or killed."""

import signal
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack

import msgspec
import numpy as np
import pandas as pd
import pytest

from client import Owner, sending
from ppodc.errors import InputError, ProtocolError, RefusedError
from ppodc.records.encode import encode
from ppodc.records.result_shares import OpenedResult, OutputShare, ResultShare
from ppodc.service.config import Cloud1Config, Cloud2Config, OwnerConfig, load
from ppodc.service.deployment import members
from ppodc.service.job_state import JobState
from ppodc.service.store import Store
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys
from tests.client.two_gateways import Platform, new_deployment, serve, table
from tests.harness.patience import LONG
from tests.service.data import make_spec, sealed_rows
from tests.service.made_up.kind import made_up_spec


def test_uploads_arrive_exactly(platform, tmp_path):
    spec = make_spec()
    frame = pd.DataFrame(table(20, 1), columns=spec.schema.names)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.iloc[:7].to_parquet(tmp_path / "b.parquet")
    frame.iloc[3:9].to_csv(tmp_path / "c.csv", index=False, header=False)
    with platform.owner() as ann, platform.owner("bob") as bob:
        ann.upload("clinic", tmp_path / "a.csv")
        bob.upload("clinic", str(tmp_path / "b.parquet"), progress=False)
        ann.upload("clinic", tmp_path / "c.csv", header=False)
        bob.upload("clinic", frame.iloc[10:])
        ann.upload("clinic", table(5, 2))
        assert [(d.name, d.uploads, d.rows, d.agreed) for d in ann.datasets()] == [
            ("clinic", 3, 31, True)
        ]
    platform.seal()
    parts = [frame, frame.iloc[:7], frame.iloc[3:9], frame.iloc[10:], table(5, 2)]
    expected = np.concatenate([encode(part, spec.schema) for part in parts])
    assert np.array_equal(platform.records(), expected)


def test_many_chunks(platform, monkeypatch):
    monkeypatch.setattr(sending, "_CHUNK_BYTES", 24 * 7)
    with platform.owner() as ann:
        receipt = ann.upload("clinic", table(50))
    chunks = platform.stores[0].folder / "uploads" / receipt.upload_id
    assert len(list(chunks.iterdir())) == 8
    platform.seal()
    assert np.array_equal(platform.records(), encode(table(50), make_spec().schema))


@pytest.mark.parametrize("clouds", [1, 2])
def test_a_kind_with_rows_for_one_cloud_or_for_both(platform, monkeypatch, clouds):
    monkeypatch.setattr(sending, "_CHUNK_BYTES", 4 * 3)  # three rows of two 16-bit numbers
    spec = platform.create(made_up_spec(monkeypatch, clouds))
    values = table(8)[:, :2]
    with platform.owner() as ann:
        receipt = ann.upload(spec.name, values)
        assert ann.upload(spec.name, values).repeated
    holders = platform.stores[:clouds]
    assert [len(store.uploads.of(spec.name)) for store in platform.stores] == [1, clouds - 1]
    for store in holders:
        assert len(list((store.folder / "uploads" / receipt.upload_id).iterdir())) == 3
        store.seals.seal(spec.name, [receipt.upload_id])
    parts = [sealed_rows(store, spec.name, 0, 8) for store in holders]
    encoded = encode(values, spec.schema)
    assert np.array_equal(sum(parts), encoded)
    sums, twice = encoded.sum(axis=0).tolist(), (2 * encoded[:, 0]).tolist()
    for side, store in enumerate(holders):
        halves = [OutputShare.of(1 << 40, part if side == 0 else [0] * len(part))
                  for part in (sums, twice)]  # fmt: skip
        for state in (JobState.PREPARING, JobState.RUNNING):
            store.jobs.transition(spec.name, state)
        result = ResultShare({"m": 8}, {"sums": halves[0]}, {"twice": halves[1]})
        store.results.save(spec.name, result)
        store.jobs.transition(spec.name, JobState.DONE)
    with platform.owner() as ann:
        opened = ann.result(spec.name, wait=False)
    assert opened == OpenedResult({"m": 8}, {"sums": sums}, {"twice": twice})
    assert platform.stores[0].ledger.entries(spec.name)[-1].event == "twice half given"


def test_the_same_upload_again_changes_nothing(platform):
    with platform.owner() as ann:
        first = ann.upload("clinic", table(5))
        again = ann.upload("clinic", table(5))
    assert (first.repeated, again.repeated) == (False, True)
    assert first.upload_id == again.upload_id
    assert platform.stores[0].datasets.get("clinic").rows == 5
    platform.seal()
    with platform.owner() as ann:
        assert ann.upload("clinic", table(5)).repeated


def test_bad_data_are_refused_before_anything_is_sent(platform):
    bad = table(5)
    bad[3, 1] = 11
    with platform.owner() as ann:
        with pytest.raises(InputError, match="nothing was encoded"):
            ann.upload("clinic", bad)
        with pytest.raises(InputError, match="2 columns"):
            ann.upload("clinic", table(5)[:, :2])
        with pytest.raises(RefusedError, match="no dataset"):
            ann.upload("nothing", table(5))
    assert all(store.uploads.of("clinic") == [] for store in platform.stores)


def test_clouds_that_disagree_get_nothing(platform):
    owners = members(platform.deployment.folder, 1)
    platform.stores[0].datasets.create(make_spec("other", k=2, owners=owners))
    platform.stores[1].datasets.create(make_spec("other", k=1, owners=owners))
    with platform.owner() as ann:
        with pytest.raises(ProtocolError, match="different specs"):
            ann.upload("other", table(5))
        assert {d.name: d.agreed for d in ann.datasets()} == {"clinic": True, "other": False}
    assert all(store.uploads.of("other") == [] for store in platform.stores)


class CutError(Exception):
    """Stands for a process that ended here."""


@pytest.mark.parametrize("calls", range(9))
def test_an_interrupted_upload_goes_on_and_counts_once(platform, monkeypatch, calls):
    monkeypatch.setattr(sending, "_CHUNK_BYTES", 24 * 4)
    original, left = Client.call, [calls]

    def cut(self, op, *arguments, **named):
        if op != "spec":
            if not left[0]:
                raise CutError
            left[0] -= 1
        return original(self, op, *arguments, **named)

    # begin twice, seed, 3 chunks, missing, commit twice
    with monkeypatch.context() as patch, platform.owner() as ann:
        patch.setattr(Client, "call", cut)
        with pytest.raises(CutError):
            ann.upload("clinic", table(10))
    with platform.owner() as ann:
        receipt = ann.upload("clinic", table(10))
    for store in platform.stores:
        assert [u.upload_id for u in store.uploads.of("clinic")] == [receipt.upload_id]
    platform.seal()
    assert np.array_equal(platform.records(), encode(table(10), make_spec().schema))


def test_other_data_get_another_seed(platform, monkeypatch):
    monkeypatch.setattr(sending.Sender, "_send", lambda *_: (_ for _ in ()).throw(CutError))
    with platform.owner() as ann:
        for case in (0, 1):
            with pytest.raises(CutError):
                ann.upload("clinic", table(5, case))
    folder = platform.deployment.party("ann").folder / "uploads"
    files = [msgspec.json.decode(path.read_bytes()) for path in folder.glob("*.json")]
    assert len({file["seed"] for file in files}) == len({f["upload_id"] for f in files}) == 2


def test_the_seed_is_private_and_erased_when_finished(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(5))
    (seed,) = [row["seed"] for row in _seeds(platform.stores[1])]
    folder = platform.deployment.party("ann").folder / "uploads"
    for path in (path for path in folder.rglob("*") if path.is_file()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert msgspec.json.encode(seed)[1:-1] not in path.read_bytes()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def _seeds(store):
    with store._database.reading() as sql:
        return sql.execute("SELECT seed FROM upload").fetchall()


def test_no_secret_in_the_logs(platform, caplog):
    caplog.set_level("DEBUG")
    with platform.owner() as ann:
        ann.upload("clinic", table(5))
        with pytest.raises(InputError):
            ann.upload("clinic", table(5) + 100)
    (seed,) = [row["seed"] for row in _seeds(platform.stores[1])]
    secret = CurveKeys.load(load(platform.deployment.party("ann").config, OwnerConfig).key).secret
    for text in (seed.hex(), repr(seed), secret.decode()):
        assert text not in caplog.text


def test_many_owners_at_once(tmp_path):
    names = [f"o{i}" for i in range(20)]
    deployment = new_deployment(tmp_path / "new", names)
    with ExitStack() as stack:
        platform = Platform(deployment, serve(deployment, stack))
        platform.create(make_spec())
        errors = []

        def one(case, name):
            try:
                with platform.owner(name) as owner:
                    owner.upload("clinic", table(200, case), progress=False)
            except Exception as error:  # noqa: BLE001 - shown below
                errors.append(error)

        threads = [threading.Thread(target=one, args=pair) for pair in enumerate(names)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        assert not errors
        for store in platform.stores:
            assert store.datasets.get("clinic").rows == 4000
        order = {u.owner: u.upload_id for u in platform.stores[0].uploads.of("clinic")}
        for store in platform.stores:
            store.seals.seal("clinic", [order[name] for name in names])
        expected = np.concatenate([table(200, case) for case in range(20)])
        assert np.array_equal(platform.records(), encode(expected, make_spec().schema))


SERVE = """
import sys, time
from ppodc.service.config import Cloud1Config, Cloud2Config, load, peers
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from ppodc.service.operations import owner_operations
from ppodc.service.store import Store
role, path = sys.argv[1:]
config = load(path, Cloud1Config if role == "cloud1" else Cloud2Config)
store = Store.open(config.store, role)
Gateway(config.listen, CurveKeys.load(config.key), peers(config), owner_operations(store)).start()
print("ready", flush=True)
time.sleep(600)
"""


def test_gateways_killed_during_an_upload_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "_CHUNK_BYTES", 24 * 20)
    deployment = new_deployment(tmp_path / "new", ["ann"])
    owner = deployment.party("ann").config
    owner.write_text(owner.read_text().replace("timeout = 30.0", f"timeout = {LONG}"))
    running = {}

    def start(role):
        path = str(deployment.party(role).config)
        child = subprocess.Popen(
            [sys.executable, "-c", SERVE, role, path], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "ready\n"
        running[role] = child

    def kill(role):
        running[role].send_signal(signal.SIGKILL)
        running[role].wait()

    original, chunks = Client.call, [0]

    def killing(self, op, *arguments, **named):
        if op == "chunk":
            chunks[0] += 1
            if chunks[0] in (3, 9):
                kill("cloud1")
                threading.Thread(target=start, args=("cloud1",)).start()
            if chunks[0] == 5:
                kill("cloud2")
                start("cloud2")
        return original(self, op, *arguments, **named)

    monkeypatch.setattr(Client, "call", killing)
    values = table(300)
    spec = make_spec(owners=members(deployment.folder))
    try:
        for role in ("cloud1", "cloud2"):
            start(role)
            kind = Cloud1Config if role == "cloud1" else Cloud2Config
            config = load(deployment.party(role).config, kind)
            with Store.open(config.store, role) as store:
                store.datasets.create(spec)
        with Owner.connect(owner) as ann:
            ann.upload("clinic", values, spec=spec, progress=False)
    finally:
        for role in running:
            kill(role)
    with ExitStack() as stack:
        platform = Platform(deployment, serve(deployment, stack))
        assert [store.datasets.get("clinic").uploads for store in platform.stores] == [1, 1]
        platform.seal()
        assert np.array_equal(platform.records(), encode(values, make_spec().schema))


def test_whoever_watches_hears_what_each_cloud_has_and_can_stop_it(platform, monkeypatch):
    monkeypatch.setattr(sending, "_CHUNK_BYTES", 3 * 3 * 8)  # three rows of three numbers
    heard = []

    def stop(sent):
        heard.append((sent.cloud, sent.sent, sent.rows))
        if sent.sent == 6 and sent.cloud == 1:
            raise KeyboardInterrupt

    with platform.owner() as ann:
        with pytest.raises(KeyboardInterrupt):
            ann.upload("clinic", table(9), on_sent=stop)
        assert heard == [(2, 9, 9), (1, 3, 9), (1, 6, 9)]
        heard.clear()
        receipt = ann.upload("clinic", table(9), on_sent=lambda sent: heard.append(sent.sent))
        assert heard == [9, 3, 9]  # the seed again, the last three rows, what was there before
        assert [upload.rows for upload in ann.uploads("clinic")] == [receipt.rows] == [9]


def test_a_check_sends_and_remembers_nothing(platform):
    with platform.owner() as ann:
        spec = ann.spec("clinic")
        assert ann.check(spec, table(9)) == 9
        with pytest.raises(InputError, match="above 10"):
            ann.check(spec, table(9) + 9)
        assert ann.uploads("clinic") == []
        assert ann.has_accepted(spec)
        assert not ann.has_accepted(make_spec("other"))
