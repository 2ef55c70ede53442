"""An auditor reads whole ledgers; heads are noted and compared by the clients themselves."""

import json
import sqlite3
import warnings
from contextlib import ExitStack

import pytest
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.errors import LedgerWarning, PpodcError, RefusedError
from ppodc.service.config import Cloud1Config, OwnerConfig, load, load_cloud
from ppodc.service.config_text import digest, save
from ppodc.service.invitation import Invitation, join
from ppodc.service.ledger_entries import CHANGED, verify
from ppodc.service.ledger_stories import shown_time, summary, told_by_one
from ppodc.service.messages import DatasetList, DatasetsAsk, Named, ResultReply, SpecText
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys
from tests.client.two_gateways import Platform, finish_job, new_deployment, serve, table
from tests.service.data import make_spec


@pytest.fixture
def audited(tmp_path):
    """Two clouds that name an auditor, with a finished study; and the auditor's configuration."""
    deployment = new_deployment(tmp_path / "new", ["ann", "bob"])
    known = load(deployment.party("ann").config, OwnerConfig)
    answer = join(
        Invitation(cloud1=known.cloud1, cloud2=known.cloud2), tmp_path / "a", "aud", "auditor"
    )
    for name in ("cloud1", "cloud2"):
        file = deployment.party(name).config
        file.write_text(
            file.read_text().replace("[auditors]", f'[auditors]\naud = "{answer.public_key}"')
        )
    with ExitStack() as stack:
        platform = Platform(deployment, serve(deployment, stack))
        platform.create(make_spec())
        platform.create(make_spec("other"))
        with platform.owner() as ann, platform.owner("bob") as bob:
            ann.upload("clinic", table(6, 1))
            bob.upload("clinic", table(5, 2))
            platform.seal()
            finish_job(platform)
            ann.result("clinic")
        yield platform, tmp_path / "a" / "auditor.toml"


def ledger(config, *options, fails=False) -> str:
    done = CliRunner().invoke(app, ["ledger", *options, "--config", str(config)])
    assert (done.exception is not None) == fails, (done.output, done.exception)
    return done.output


def lines(output: str) -> list[list[str]]:
    return [line.split("\t") for line in output.splitlines() if "\t" in line][1:]


def test_an_auditor_reads_every_entry_of_both_clouds(audited):
    platform, config = audited
    for cloud, store in enumerate(platform.stores, 1):
        output = ledger(config, "--cloud", str(cloud))
        entries = store.ledger.entries()
        assert [int(line[0]) for line in lines(output)] == [entry.number for entry in entries]
        assert "not yours" not in output
        assert all(line[1].endswith(" UTC") for line in lines(output))
    assert {"result half given", "labels half given"} <= {line[2] for line in lines(output)}


def test_an_auditor_can_do_nothing_else(audited):
    platform, config = audited
    loaded = load(config, OwnerConfig)
    remote, keys = loaded.cloud1, CurveKeys.load(loaded.key)
    with Client.connect(remote.endpoint, keys, remote.public_key.encode()) as auditor:
        for op, body, reply in [
            ("datasets", DatasetsAsk(), DatasetList),
            ("result", Named("clinic"), ResultReply),
            ("create", SpecText(b"{}"), DatasetList),
            ("delete", Named("clinic"), DatasetList),
        ]:
            with pytest.raises(RefusedError, match="not for the role 'auditor'"):
                auditor.call(op, body, reply=reply)
        shown = auditor.call("spec", Named("clinic"), reply=SpecText)[0].spec
    assert shown == platform.stores[0].datasets.spec("clinic").canonical()


def test_a_ledger_by_dataset_and_in_short(audited):
    _, config = audited
    assert {line[3] for line in lines(ledger(config, "--dataset", "other"))} == {"other"}
    short = lines(ledger(config, "--summary", "--dataset", "clinic"))
    assert {line[1]: line[2] for line in short}["upload committed"] == "2"


def test_both_ledgers_tell_the_same_until_one_leaves_something_out(audited, tmp_path):
    platform, config = audited
    assert "both clouds tell the same" in ledger(config, "compare")
    platform.stores[1].ledger.append("stop bit revealed", "clinic", {"iteration": 9, "stop": True})
    file = tmp_path / "found.json"
    output = ledger(config, "compare", "--json", str(file), fails=True)
    assert [line[:1] + line[3:5] for line in lines(output)] == [
        ["cloud 2", "stop bit revealed", "clinic"]
    ]
    told = json.loads(file.read_text())
    assert [each["detail"]["iteration"] for each in told["only_at_one"]] == [9]
    assert told["cloud1"]["head"] == platform.stores[0].ledger.verify().head
    assert "tell the same" in ledger(config, "compare", "--dataset", "other")
    for store in platform.stores:
        store.ledger.append(CHANGED, "other", {})
    assert ledger(config, "compare", "--dataset", "other", fails=True).count(CHANGED) == 2


def test_stories_of_hidden_entries_are_not_compared(audited):
    platform, _ = audited
    first, second = (store.ledger.entries() for store in platform.stores)
    assert told_by_one(first, second) == []
    hidden = [entry.hide() for entry in second]
    assert {cloud for cloud, _ in told_by_one(first, hidden)} == {1}
    assert summary(hidden) == []


def cut(platform, keep: int) -> None:
    connection = sqlite3.connect(platform.stores[0].folder / "store.sqlite")
    connection.execute("DELETE FROM ledger WHERE number > ?", (keep,))
    connection.commit()
    connection.close()


def test_an_owners_client_notices_a_cut_ledger_by_itself(audited):
    platform, _ = audited
    config = platform.deployment.party("ann").config
    with warnings.catch_warnings(), platform.owner() as ann:
        warnings.simplefilter("error")
        ann.result("clinic")
        cut(platform, 3)
        with pytest.raises(LedgerWarning, match="cloud 1 does not have entry"):
            ann.result("clinic")
        ann.result("clinic")  # told once; the evidence stays
    assert "had lost entry" in ledger(config)
    heads = json.loads((config.parent / "uploads" / "ledger" / "heads.json").read_text())
    assert [each["cloud"] for each in heads["lost"]] == [1]


def test_a_rewritten_entry_after_the_noted_head_is_noticed(audited):
    platform, _ = audited
    with platform.owner() as ann:
        ann.result("clinic")
        connection = sqlite3.connect(platform.stores[1].folder / "store.sqlite")
        connection.execute("UPDATE ledger SET hash = ? WHERE number = 2", ("0" * 64,))
        connection.commit()
        ann.check_ledgers()  # what was checked before is not read again
        last = connection.execute("SELECT max(number) FROM ledger").fetchone()[0]
        platform.stores[1].ledger.append("upload committed", "clinic", {})
        connection.execute("UPDATE ledger SET previous = ? WHERE number = ?", ("1" * 64, last + 1))
        connection.commit()
        connection.close()
        with pytest.warns(LedgerWarning, match="does not continue"):
            ann.check_ledgers()


def test_labels_are_fetched_only_where_they_are_asked_for(audited):
    platform, _ = audited
    config = str(platform.deployment.party("bob").config)

    def given() -> int:
        entries = platform.stores[0].ledger.entries()
        return sum("labels half given" in entry.event for entry in entries)

    before = given()
    done = CliRunner().invoke(app, ["result", "clinic", "--config", config])
    assert done.exit_code == 0
    assert given() == before
    with platform.owner("bob") as bob:
        assert bob.result("clinic", rows=False).labels_ is None
        assert len(bob.result("clinic").labels_) == 5
    assert given() == before + 1


def test_the_ledger_says_what_ran_a_job(audited):
    platform, _ = audited
    store, file = platform.stores[0], platform.deployment.party("cloud1").config
    config = load_cloud(file)
    with platform.owner() as ann:
        ann.upload("other", table(6, 1))
    platform.seal("other")
    store.jobs.begin("other", "shares", 2, digest(config))
    entry = store.ledger.entries("other")[-1]
    told = json.loads(entry.detail)
    assert entry.event == "job begun"
    assert told["configuration"] == digest(config)[:16]
    assert told["release"]
    assert told["suite"] == "shares"
    copy = file.with_name("copy.toml")
    save(copy, config)
    assert digest(load(copy, Cloud1Config)) == digest(config)
    copy.write_text(copy.read_text().replace("pairs = 1", "pairs = 3", 1))
    assert digest(load(copy, Cloud1Config)) != digest(config)


def test_times_have_a_zone(audited):
    platform, _ = audited
    entry = platform.stores[0].ledger.entries()[0]
    assert shown_time(entry) == entry.time[:19].replace("T", " ") + " UTC"


def test_a_chain_is_checked_from_a_known_entry_on(audited):
    platform, _ = audited
    entries = platform.stores[0].ledger.entries()
    known = entries[2]
    assert verify(iter(entries[3:]), (3, known.hash)) == verify(iter(entries))
    assert verify(iter(entries[3:]), (3, "0" * 64)).broken == 4


def test_an_auditors_file_serves_no_owner(audited):
    _, config = audited
    with pytest.raises(PpodcError, match="of an auditor, not an owner"):
        CliRunner().invoke(app, ["datasets", "--config", str(config)], catch_exceptions=False)
