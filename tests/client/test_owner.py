"""Owners against two real gateways with real stores: uploads, access, results."""

import secrets
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pandas as pd
import pytest

from client import JobEndedError, Owner
from client import owner as owner_module
from ppodc.errors import ChannelError, InputError, RefusedError
from ppodc.kmeans.reference import kmeans
from ppodc.records.encode import encode
from ppodc.records.output_half import OpenedResult, OutputHalf, ResultHalf
from ppodc.records.sharing import combine, split
from ppodc.service.config import Cloud1Config, Cloud2Config, OwnerConfig, load, peers
from ppodc.service.deployment import Deployment, create
from ppodc.service.job_state import JobState
from ppodc.service.messages import (
    Begin,
    ChunkPlace,
    DatasetList,
    DatasetsAsk,
    Named,
    ResultReply,
    RowsAsk,
    RowsReply,
    SpecText,
    UploadRef,
    UploadState,
)
from ppodc.service.operations import owner_operations
from ppodc.service.store import Dataset, Store
from ppodc.spec import Spec
from ppodc.transport.call_client import Client
from ppodc.transport.call_server import Gateway
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.wire import Empty
from tests.service.data import make_spec
from tests.service.made_up_kind import made_up_spec


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]


@dataclass
class Platform:
    deployment: Deployment
    stores: tuple[Store, Store]

    def owner(self, name="ann") -> Owner:
        return Owner.connect(self.deployment.party(name).config)

    def client(self, name: str, cloud=1) -> Client:
        config = load(self.deployment.party(name).config, OwnerConfig)
        remote = config.cloud1 if cloud == 1 else config.cloud2
        keys = CurveKeys.load(config.key)
        return Client.connect(remote.endpoint, keys, remote.public_key.encode(), 20)

    def seal(self, dataset="clinic"):
        ids = [
            upload.upload_id for upload in self.stores[0].uploads.of(dataset) if upload.committed
        ]
        for store in self.stores:
            store.uploads.seal(dataset, ids)

    def records(self, dataset="clinic") -> np.ndarray:
        m = self.stores[0].uploads.sealed(dataset).m
        return combine(*(store.uploads.rows(dataset, 0, m) for store in self.stores))


def new_deployment(folder, owners):
    first, second = free_ports(2)
    return create(
        folder,
        owners,
        cloud1_listen=f"tcp://127.0.0.1:{first}",
        cloud2_listen=f"tcp://127.0.0.1:{second}",
        insecure_key_bits=256,
    )


def serve(deployment: Deployment, stack: ExitStack) -> tuple[Store, Store]:
    stores = []
    for role, kind in (("cloud1", Cloud1Config), ("cloud2", Cloud2Config)):
        config = load(deployment.party(role).config, kind)
        store = stack.enter_context(Store.open(config.store, role))
        operations = owner_operations(store)
        keys = CurveKeys.load(config.key)
        stack.enter_context(Gateway(config.listen, keys, peers(config), operations))
        stores.append(store)
    return stores[0], stores[1]


@pytest.fixture
def platform(tmp_path):
    deployment = new_deployment(tmp_path / "new", ["ann", "bob", "eve"])
    with ExitStack() as stack:
        stores = serve(deployment, stack)
        for store in stores:
            store.datasets.create(make_spec())
        yield Platform(deployment, stores)


def table(rows: int, case=0) -> np.ndarray:
    return np.random.default_rng(case).uniform(0, 10, (rows, 3))


def finish_job(platform: Platform, max_iter=100):
    """Put the reference's result, split in halves, where a job would have put it."""
    spec, values = platform.stores[0].datasets.spec("clinic"), platform.records()
    trace = kmeans(values, spec.job.k, beta=spec.job.beta, max_iter=max_iter, seed=spec.job.seed)
    flat = np.concatenate([trace.sums, trace.sizes[:, None]], axis=1).reshape(-1).tolist()
    halves = [_split(flat, 2**521 - 1), _split(trace.labels.tolist(), 1 << 71)]
    for side, store in enumerate(platform.stores):
        labels = {"labels": halves[1][side]} if spec.job.labels else {}
        for state in (JobState.PREPARING, JobState.RUNNING):
            store.jobs.transition("clinic", state)
        facts = {"n_iter": trace.n_iter, "converged": trace.converged}
        result = ResultHalf(facts, {"clusters": halves[0][side]}, labels)
        store.results.save("clinic", result)
        store.jobs.transition("clinic", JobState.DONE)
    return trace


def _split(values: list[int], modulus: int) -> tuple[OutputHalf, OutputHalf]:
    masks = [secrets.randbelow(modulus) for _ in values]
    hidden = [(value - mask) % modulus for value, mask in zip(values, masks, strict=True)]
    return OutputHalf.of(modulus, hidden), OutputHalf.of(modulus, masks)


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
    monkeypatch.setattr(owner_module, "_CHUNK_BYTES", 24 * 7)
    with platform.owner() as ann:
        receipt = ann.upload("clinic", table(50))
    chunks = platform.stores[0].folder / "uploads" / receipt.upload_id
    assert len(list(chunks.iterdir())) == 8
    platform.seal()
    assert np.array_equal(platform.records(), encode(table(50), make_spec().schema))


@pytest.mark.parametrize("clouds", [1, 2])
def test_a_kind_with_rows_for_one_cloud_or_for_both(platform, monkeypatch, clouds):
    monkeypatch.setattr(owner_module, "_CHUNK_BYTES", 4 * 3)  # three rows of two 16-bit numbers
    spec = made_up_spec(monkeypatch, clouds)
    for store in platform.stores:
        store.datasets.create(spec)
    values = table(8)[:, :2]
    with platform.owner() as ann:
        receipt = ann.upload(spec.name, values)
        assert ann.upload(spec.name, values).repeated
    holders = platform.stores[:clouds]
    assert [len(store.uploads.of(spec.name)) for store in platform.stores] == [1, clouds - 1]
    for store in holders:
        assert len(list((store.folder / "uploads" / receipt.upload_id).iterdir())) == 3
        store.uploads.seal(spec.name, [receipt.upload_id])
    parts = [store.uploads.rows(spec.name, 0, 8) for store in holders]
    encoded = encode(values, spec.schema)
    assert np.array_equal(sum(parts), encoded)
    sums, twice = encoded.sum(axis=0).tolist(), (2 * encoded[:, 0]).tolist()
    for side, store in enumerate(holders):
        halves = [OutputHalf.of(1 << 40, part if side == 0 else [0] * len(part))
                  for part in (sums, twice)]  # fmt: skip
        for state in (JobState.PREPARING, JobState.RUNNING):
            store.jobs.transition(spec.name, state)
        result = ResultHalf({"m": 8}, {"sums": halves[0]}, {"twice": halves[1]})
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
    platform.stores[0].datasets.create(make_spec("other", k=2))
    platform.stores[1].datasets.create(make_spec("other", k=1))
    with platform.owner() as ann:
        with pytest.raises(InputError, match="different specs"):
            ann.upload("other", table(5))
        assert {d.name: d.agreed for d in ann.datasets()} == {"clinic": True, "other": False}
    assert all(store.uploads.of("other") == [] for store in platform.stores)


class CutError(Exception):
    """Stands for a process that ended here."""


@pytest.mark.parametrize("calls", range(9))
def test_an_interrupted_upload_goes_on_and_counts_once(platform, monkeypatch, calls):
    monkeypatch.setattr(owner_module, "_CHUNK_BYTES", 24 * 4)
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
    monkeypatch.setattr(Owner, "_send", lambda *_: (_ for _ in ()).throw(CutError))
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
    for path in folder.iterdir():
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


def test_upload_after_sealing_is_refused_and_logged(platform, caplog):
    with platform.owner() as ann:
        ann.upload("clinic", table(5))
        platform.seal()
        with pytest.raises(RefusedError, match="no more uploads"):
            ann.upload("clinic", table(6))
    assert "refused owner ann begin" in caplog.text


def test_a_wrong_spec_digest_is_refused_and_logged(platform, caplog):
    begin = Begin("clinic", "0" * 64, secrets.token_hex(16), 5)
    for cloud in (1, 2):
        raw = platform.client("ann", cloud)
        with raw, pytest.raises(RefusedError, match="another one here"):
            raw.call("begin", begin, reply=UploadState)
    assert caplog.text.count("refused owner ann begin") == 2


def test_another_owners_upload_cannot_be_touched(platform, caplog):
    with platform.owner() as ann:
        receipt = ann.upload("clinic", table(5))
        platform.seal()
        finish_job(platform)
    share, _ = split(encode(table(5), make_spec().schema))
    with platform.client("eve") as eve:
        for op, body, arrays in [
            ("chunk", ChunkPlace(receipt.upload_id, 0), [share]),
            ("commit", UploadRef(receipt.upload_id), []),
            ("missing", UploadRef(receipt.upload_id), []),
            ("rows", RowsAsk("clinic", receipt.upload_id, "labels"), []),
        ]:
            with pytest.raises(RefusedError, match="is not of eve"):
                eve.call(op, body, arrays, reply=Empty)
        with pytest.raises(RefusedError, match="eve has no records"):
            eve.call("result", Named("clinic"), reply=ResultReply)
    assert caplog.text.count("refused owner eve") == 5


def test_roles_are_kept_apart(platform):
    with platform.client("operator") as operator:
        with pytest.raises(RefusedError, match="not for the role"):
            operator.call("result", Named("clinic"), reply=ResultReply)
        operator.tell("create", SpecText(make_spec("second").canonical()))
        listed = operator.call("datasets", DatasetsAsk("clinic"), reply=DatasetList)[0].datasets
        assert listed == (Dataset("second", make_spec("second").digest, JobState.CREATED, 0, 0),)
    with platform.client("ann") as ann:
        for op in ("create", "ledger"):
            with pytest.raises(RefusedError, match="not for the role"):
                ann.call(op, Named("clinic"), reply=Empty)
        with pytest.raises(RefusedError, match="no operation"):
            ann.call("status", Named("clinic"), reply=Empty)


def test_an_unknown_key_is_refused(platform, caplog):
    path = platform.deployment.party("ann").folder / "keys"
    for file in path.iterdir():
        file.unlink()
    CurveKeys.generate().save(path / "ann")
    with platform.owner() as stranger, pytest.raises(ChannelError, match="does not let this key"):
        stranger.datasets()
    assert "is not allowed" in caplog.text


def test_the_result_is_the_references(platform):
    tables = {"ann": [table(8, 1), table(3, 2)], "bob": [table(6, 3)]}
    with platform.owner("ann") as ann, platform.owner("bob") as bob:
        ann.upload("clinic", tables["ann"][0])
        bob.upload("clinic", tables["bob"][0])
        ann.upload("clinic", tables["ann"][1])
        platform.seal()
        trace = finish_job(platform)
        results = {"ann": ann.result("clinic"), "bob": bob.result("clinic", wait=False)}
    for result in results.values():
        assert np.array_equal(result.sums_, trace.sums)
        assert np.array_equal(result.sizes_, trace.sizes)
        assert (result.n_iter_, result.converged_) == (trace.n_iter, trace.converged)
        centres = trace.sums / trace.sizes[:, None] / 100 * 10
        assert np.allclose(result.cluster_centers_, centres, rtol=1e-12)
    labels = trace.labels
    assert results["ann"].labels_.tolist() == [*labels[:8], *labels[14:]]
    assert results["bob"].labels_.tolist() == labels[8:14].tolist()


def test_every_half_given_is_in_both_ledgers(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        finish_job(platform)
        ann.result("clinic")
    for store in platform.stores:
        events = [entry.event for entry in store.ledger.entries("clinic")]
        assert events == [
            "dataset created",
            "upload committed",
            "dataset sealed",
            "labels half stored",
            "result half stored",
            "result half given",
            "labels half given",
        ]
        assert store.ledger.verify().broken is None


def test_labels_only_if_the_spec_offers_them(platform):
    spec = make_spec("quiet", labels=False)
    for store in platform.stores:
        store.datasets.create(spec)
    with platform.owner() as ann:
        receipt = ann.upload("quiet", table(8))
        with platform.client("ann") as raw, pytest.raises(RefusedError, match="offers no labels"):
            raw.call("rows", RowsAsk("quiet", receipt.upload_id, "labels"), reply=RowsReply)


def test_waiting_ends_with_the_job(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        with pytest.raises(InputError, match="it is created"):
            ann.result("clinic", wait=False)
        platform.seal()
        with pytest.raises(InputError, match="it is sealed"):
            ann.result("clinic", timeout=0.3)
        results = []
        waiting = threading.Thread(target=lambda: results.append(ann.result("clinic", timeout=60)))
        waiting.start()
        finish_job(platform)
        waiting.join(60)
        assert results[0].n_iter_ >= 1


@pytest.mark.parametrize(("state", "text"), [("failed", "ppodc resume"), ("cancelled", "was can")])
def test_a_job_that_ends_badly_is_told_while_waiting(platform, state, text):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        for each in (JobState.PREPARING, JobState.RUNNING, JobState(state)):
            platform.stores[0].jobs.transition("clinic", each, message="a pair was lost.")
        with pytest.raises(JobEndedError, match=text) as caught:
            ann.result("clinic")
        assert "a pair was lost" in str(caught.value)


def test_halves_of_different_runs_are_not_opened(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        for store in platform.stores:
            for state in (JobState.PREPARING, JobState.RUNNING):
                store.jobs.transition("clinic", state)
            half = _split([1] * 8, 2**521 - 1)[0]  # the partner of this one is thrown away
            labels = _split([0] * 8, 1 << 71)[0]
            facts = {"n_iter": 3, "converged": True}
            result = ResultHalf(facts, {"clusters": half}, {"labels": labels})
            store.results.save("clinic", result)
            store.jobs.transition("clinic", JobState.DONE)
        with pytest.raises(InputError, match="do not belong together"):
            ann.result("clinic")


@pytest.mark.parametrize(
    ("tamper", "text"),
    [
        (lambda half: replace(half, facts={**half.facts, "n_iter": 99}), "different runs"),
        (lambda half: replace(half, halves={}), "different runs"),
        (lambda half: replace(half, halves={"centres": half.halves["clusters"]}), "different runs"),
        (
            lambda half: replace(half, halves={"clusters": OutputHalf.of(7, [0] * 8)}),
            "do not belong together",
        ),
        (
            lambda half: replace(half, halves={"clusters": half.halves["clusters"].rows(0, 7)}),
            "do not belong together",
        ),
    ],
)
def test_a_cloud_that_gives_another_result_is_found_out(platform, monkeypatch, tamper, text):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        finish_job(platform)
        results = platform.stores[1].results
        original = results.half
        monkeypatch.setattr(results, "half", lambda dataset: tamper(original(dataset)))
        with pytest.raises(InputError, match=text):
            ann.result("clinic")


def test_labels_of_other_rows_are_found_out(platform, monkeypatch):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        finish_job(platform)
        results = platform.stores[1].results
        original = results.own_rows
        monkeypatch.setattr(results, "own_rows", lambda *which: original(*which).rows(0, 7))
        with pytest.raises(InputError, match="cloud 2 sent labels of other rows"):
            ann.result("clinic")


def test_many_owners_at_once(tmp_path):
    names = [f"o{i}" for i in range(20)]
    deployment = new_deployment(tmp_path / "new", names)
    with ExitStack() as stack:
        platform = Platform(deployment, serve(deployment, stack))
        for store in platform.stores:
            store.datasets.create(make_spec())
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
            thread.join(60)
        assert not errors
        for store in platform.stores:
            assert store.datasets.get("clinic").rows == 4000
        order = {u.owner: u.upload_id for u in platform.stores[0].uploads.of("clinic")}
        for store in platform.stores:
            store.uploads.seal("clinic", [order[name] for name in names])
        expected = np.concatenate([table(200, case) for case in range(20)])
        assert np.array_equal(platform.records(), encode(expected, make_spec().schema))


SERVE = """
import sys, time
from ppodc.service.config import Cloud1Config, Cloud2Config, load, peers
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.call_server import Gateway
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
    monkeypatch.setattr(owner_module, "_CHUNK_BYTES", 24 * 20)
    deployment = new_deployment(tmp_path / "new", ["ann"])
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
    try:
        for role in ("cloud1", "cloud2"):
            start(role)
            kind = Cloud1Config if role == "cloud1" else Cloud2Config
            config = load(deployment.party(role).config, kind)
            with Store.open(config.store, role) as store:
                store.datasets.create(make_spec())
        with Owner.connect(deployment.party("ann").config) as ann:
            ann.upload("clinic", values, progress=False)
    finally:
        for role in running:
            kill(role)
    with ExitStack() as stack:
        platform = Platform(deployment, serve(deployment, stack))
        assert [store.datasets.get("clinic").uploads for store in platform.stores] == [1, 1]
        platform.seal()
        assert np.array_equal(platform.records(), encode(values, make_spec().schema))


def test_a_spec_travels_in_canonical_form(platform):
    with platform.client("ann") as raw:
        received = raw.call("spec", Named("clinic"), reply=SpecText)[0].spec
    assert Spec.from_bytes(received) == make_spec()
