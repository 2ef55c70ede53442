"""Agreement, withdrawal and reading rights of owners, at two real gateways."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from client.operator import Operator
from ppodc.cli import app
from ppodc.errors import InputError, ProtocolError, RefusedError
from ppodc.records.encode import encode
from ppodc.service.ledger_entries import verify
from ppodc.spec import Spec
from ppodc.transport.call_client import Client
from tests.client.two_gateways import finish_job, table
from tests.service.data import make_spec


@pytest.fixture
def fresh(platform):
    """A dataset that nobody has accepted yet."""
    spec = replace(platform.stores[0].datasets.spec("clinic"), name="fresh")
    for store in platform.stores:
        store.datasets.create(spec)
    return spec


def test_an_upload_needs_a_spec_that_was_agreed_to(platform, fresh, tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text(fresh.to_toml())
    with platform.owner() as ann:
        with pytest.raises(InputError, match=r"not yet agreed.*ppodc spec fresh"):
            ann.upload("fresh", table(5))
        for other in (make_spec(), "0" * 64):
            with pytest.raises(InputError, match="is not the one you agreed to"):
                ann.upload("fresh", table(5), spec=other)
        with pytest.raises(InputError, match="64 digits"):
            ann.upload("fresh", table(5), spec="spec.toml")
        assert all(store.uploads.of("fresh") == [] for store in platform.stores)
        ann.upload("fresh", table(5), spec=fresh.digest)
        assert ann.upload("fresh", table(5)).repeated  # it is remembered
    with platform.owner("bob") as bob:
        with pytest.raises(InputError, match="not yet agreed"):  # by ann, not by bob
            bob.upload("fresh", table(5))
        bob.upload("fresh", table(6), spec=file)


def test_an_accepted_spec_that_was_changed_on_disk_does_not_count(platform, fresh):
    with platform.owner() as ann:
        ann.accept("fresh", fresh)
        path = platform.deployment.party("ann").folder / "uploads" / "accepted" / fresh.digest
        path.write_bytes(path.read_bytes().replace(b'"k":2', b'"k":3'))
        with pytest.raises(InputError, match="not yet agreed"):
            ann.upload("fresh", table(5))


def test_withdrawn_records_do_not_count_and_can_be_given_again(platform):
    with platform.owner() as ann, platform.owner("bob") as bob:
        first = ann.upload("clinic", table(5))
        second = ann.upload("clinic", table(4, 1))
        bob.upload("clinic", table(3, 2))
        with pytest.raises(InputError, match=r"no upload .* of yours"):
            bob.withdraw("clinic", first.upload_id)
        assert ann.withdraw("clinic", first.upload_id) == [first.upload_id]
        assert ann.withdraw("clinic") == [second.upload_id]
        assert ann.withdraw("clinic") == []
        again = ann.upload("clinic", table(4, 1))
        assert not again.repeated
        assert again.upload_id != second.upload_id
    platform.seal()
    expected = np.concatenate([table(3, 2), table(4, 1)])
    assert np.array_equal(platform.records(), encode(expected, make_spec().schema))
    with platform.owner() as ann, pytest.raises(RefusedError, match="nor gives any back"):
        ann.withdraw("clinic")
    for store in platform.stores:
        events = [entry.event for entry in store.ledger.entries()]
        assert events.count("upload withdrawn") == 2


def test_a_withdrawal_that_was_cut_off_is_repeated(platform, monkeypatch):
    with platform.owner() as ann:
        receipt = ann.upload("clinic", table(5))
        tell, told = Client.tell, []

        def once(self, op, *arguments):
            if op == "withdraw" and told:
                raise KeyboardInterrupt
            told.append(op)
            tell(self, op, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Client, "tell", once)
            with pytest.raises(KeyboardInterrupt):
                ann.withdraw("clinic")
        assert [len(s.uploads.of("clinic", committed=True)) for s in platform.stores] == [0, 1]
        assert ann.withdraw("clinic") == [receipt.upload_id]
        assert [len(s.uploads.of("clinic", committed=True)) for s in platform.stores] == [0, 0]


def test_an_unfinished_upload_whose_id_was_withdrawn_begins_anew(platform, monkeypatch):
    """Both clouds have committed, but the owner was killed before it could note that."""
    from client.upload_record import UploadRecords

    with platform.owner() as ann:
        with monkeypatch.context() as patch:
            patch.setattr(UploadRecords, "finish", lambda *_: None)
            lost = ann.upload("clinic", table(5))
        ann.withdraw("clinic")
        again = ann.upload("clinic", table(5))
        assert again.upload_id != lost.upload_id
        assert ann.upload("clinic", table(5)).repeated


def test_an_operator_leaves_an_upload_out_and_its_owner_is_told(platform):
    with platform.owner() as ann, platform.owner("bob") as bob:
        odd, kept = ann.upload("clinic", table(5)), bob.upload("clinic", table(3, 2))
        with Operator.connect(platform.deployment.party("operator").config) as operator:
            operator.leave_out("clinic", odd.upload_id)
            operator.leave_out("clinic", odd.upload_id)
            with pytest.raises(RefusedError, match="no upload of this id"):
                operator.leave_out("clinic", "0" * 32)
            states = {upload.upload_id: upload.removed for upload in operator.uploads("clinic")}
        assert states == {odd.upload_id: "left out", kept.upload_id: ""}
        with pytest.raises(RefusedError, match="left out by an operator; ask them"):
            ann.upload("clinic", table(5))
        for cloud in (1, 2):  # the other owner sees it too: it has one companion less
            seen = [entry for entry in bob.ledger(cloud) if entry.event == "upload left out"]
            assert [json.loads(entry.detail)["owner"] for entry in seen] == ["ann"]
    platform.seal()
    assert np.array_equal(platform.records(), encode(table(3, 2), make_spec().schema))
    for store in platform.stores:
        assert [e.event for e in store.ledger.entries()].count("upload left out") == 1


def test_results_of_two_sessions_are_not_joined(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        finish_job(platform)
        with platform.stores[1]._database.transaction() as sql:
            sql.execute("UPDATE result SET session_id = 'another'")
        with pytest.raises(ProtocolError, match="results of two sessions"):
            ann.result("clinic")


def run(platform, party, *arguments, typed=None):
    config = str(platform.deployment.party(party).config)
    done = CliRunner().invoke(app, [*arguments, "--config", config], input=typed)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_the_commands_of_an_agreement(platform, fresh, tmp_path):
    words = run(platform, "ann", "spec", "fresh")
    for part in ("Owners: ann, bob, eve", "At least 1 of 3", "c0: from 0 to 10", fresh.digest):
        assert part in words
    assert "size and centre of each cluster" in words
    np.savetxt(tmp_path / "t.csv", table(5), delimiter=",")
    upload = ("upload", "fresh", str(tmp_path / "t.csv"), "--no-header")
    with pytest.raises(InputError, match="not yet agreed"):
        run(platform, "ann", *upload)
    assert "uploaded: 5 records" in run(platform, "ann", *upload, "--digest", fresh.digest)
    listed = run(platform, "operator", "dataset", "uploads", "fresh")
    assert "ann" in listed
    assert "withdrawn: upload" in run(platform, "ann", "withdraw", "fresh")
    assert "nothing to withdraw" in run(platform, "ann", "withdraw", "fresh")
    ledger = run(platform, "ann", "ledger", "--cloud", "2")
    assert "holds" in ledger
    delete = ("operator", "dataset", "delete", "fresh")
    with pytest.raises(InputError, match="nothing was deleted"):
        run(platform, *delete, typed="clinic\n")
    assert not any(store.datasets.deleted("fresh") for store in platform.stores)
    assert "deleted: fresh" in run(platform, *delete, typed="fresh\n")
    assert "deleted: fresh" in run(platform, *delete, "--yes")


@pytest.mark.parametrize(
    ("job", "key"), [("k = 3\nseed = 1", "min_size"), ('kind = "totals"', "least")]
)
def test_a_new_spec_without_a_threshold_is_refused_unless_it_is_accepted(
    platform, tmp_path, job, key
):
    owners = platform.stores[0].datasets.spec("clinic").owners.to_toml()
    columns = '[schema]\ncolumns = [{ name = "x", low = 0, high = 9 }]\n'
    file = tmp_path / "spec.toml"
    file.write_text(f'name = "fresh"\n{columns}[job]\n{job}\n{owners}')
    with pytest.raises(InputError, match=f"no {key} above 1.*{key} = 5"):
        run(platform, "operator", "dataset", "create", str(file))
    accept = ("dataset", "create", str(file), "--accept-single-records")
    assert "digest" in run(platform, "operator", *accept)
    assert "one record" in run(platform, "ann", "spec", "fresh")


def test_the_placeholders_of_the_sample_are_refused_by_name(tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text(CliRunner().invoke(app, ["sample-spec"]).output)
    with pytest.raises(InputError, match=r"owners.keys.owner1 is the sample's placeholder"):
        Spec.load(file)


def test_owners_and_operators_read_the_ledger_and_the_chain_holds(platform):
    with platform.owner() as ann, platform.owner("bob") as bob:
        ann.upload("clinic", table(5))
        whole = platform.stores[0].ledger.verify()
        for reader, committed in ((ann, 1), (bob, 0)):
            entries = reader.ledger(1)
            assert verify(iter(entries)) == whole
            assert [e.event for e in entries].count("upload committed") == committed
