"""`ppodc ledger`: whole wherever it is printed, for owners too, and a cut tail is noticed."""

import json
import sqlite3

import pytest
from typer.testing import CliRunner

from ppodc.cli import app
from tests.client.two_gateways import table


@pytest.fixture
def ledger(platform):
    with platform.owner() as ann, platform.owner("bob") as bob:
        ann.upload("clinic", table(3, 1))
        bob.upload("clinic", table(4, 2))

    def run(party: str, *options: str):
        config = str(platform.deployment.party(party).config)
        return CliRunner().invoke(app, ["ledger", "--config", config, *options])

    return run


def test_every_word_is_there_when_it_is_piped(platform, ledger):
    said = ledger("operator")
    assert said.exit_code == 0
    for entry in platform.stores[0].ledger.entries():
        number, _, event, dataset, detail, learnt, start = (
            said.output.splitlines()[entry.number].split("\t")
        )  # fmt: skip
        assert (int(number), event, dataset) == (entry.number, entry.event, entry.dataset)
        assert (detail, learnt) == entry.describe()
        assert entry.hash.startswith(start)
    head = platform.stores[0].ledger.verify()
    assert f"head {head.entries} {head.head}" in said.output


def test_an_owner_reads_what_concerns_it(ledger, tmp_path):
    file = tmp_path / "ledger.json"
    said = ledger("ann", "--cloud", "2", "--json", str(file))
    assert said.exit_code == 0
    assert "1 of them not yours to read" in said.output
    told = json.loads(file.read_text())
    assert [entry["event"] for entry in told["entries"]] == ["dataset created", "upload committed"]
    assert told["entries"][1]["detail"]["owner"] == "ann"
    assert told["length"] == 3
    assert told["head"] in said.output
    assert (
        "no entry about dataset 'nope' that is yours" in ledger("ann", "--dataset", "nope").output
    )


def test_since_a_noted_head_only_what_is_new(platform, ledger):
    noted = platform.stores[0].ledger.entries()[1]
    said = ledger("operator", "--since", "2", noted.hash)
    assert said.exit_code == 0
    assert [line.split("\t")[0] for line in said.output.splitlines()[:-1]] == ["no.", "3"]


def test_a_cut_tail_is_noticed(platform, ledger):
    store = platform.stores[0]
    head = store.ledger.verify()
    connection = sqlite3.connect(store.folder / "store.sqlite")
    connection.execute("DELETE FROM ledger WHERE number = 3")
    connection.commit()
    connection.close()
    assert ledger("operator").exit_code == 0, "a shorter chain holds"
    said = ledger("operator", "--since", str(head.entries), head.head)
    assert said.exit_code != 0
    assert "cut off: it ends with entry 2" in str(said.exception)
