"""The ledger: a chain that shows the first entry somebody touched."""

import sqlite3

import msgspec
import pytest

from ppodc.errors import InputError, PpodcError
from ppodc.service.ledger_entries import START, Entry, check_noted, verify
from ppodc.service.store import Store
from tests.service.data import make_spec


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path, "cloud1") as opened:
        for i in range(1, 6):
            opened.ledger.append("stop bit revealed", "clinic", {"iteration": i, "stop": i == 5})
        yield opened


def test_an_untouched_chain_verifies(store):
    found = store.ledger.verify()
    entries = store.ledger.entries()
    assert (found.entries, found.broken, found.head) == (5, None, entries[-1].hash)
    assert entries[0].previous == START
    assert [entry.number for entry in entries] == [1, 2, 3, 4, 5]
    assert entries[4].detail == '{"iteration":5,"stop":true}'


def test_an_empty_chain_verifies(tmp_path):
    assert Store.open(tmp_path, "cloud2").ledger.verify().head == START


def change(store, statement):
    connection = sqlite3.connect(store.folder / "store.sqlite")
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "broken", "reason"),
    [
        ("UPDATE ledger SET detail = '{}' WHERE number = 3", 3, "changed"),
        ("UPDATE ledger SET event = 'x' WHERE number = 1", 1, "changed"),
        ("UPDATE ledger SET dataset = 'x' WHERE number = 5", 5, "changed"),
        ("UPDATE ledger SET time = 'x' WHERE number = 2", 2, "changed"),
        ("DELETE FROM ledger WHERE number = 2", 2, "missing"),
        ("DELETE FROM ledger WHERE number = 1", 1, "missing"),
        ("UPDATE ledger SET previous = hash WHERE number = 4", 4, "continue"),
    ],
)
def test_the_first_broken_entry_is_named(store, statement, broken, reason):
    change(store, statement)
    found = store.ledger.verify()
    assert found.broken == broken
    assert reason in found.reason


def test_an_entry_rewritten_with_its_hash_breaks_the_next(store):
    entries = store.ledger.entries()
    forged = msgspec.structs.replace(entries[1], detail='{"iteration":2,"stop":true}')
    entries[1] = msgspec.structs.replace(forged, hash=forged.expected_hash())
    assert verify(iter(entries)).broken == 3


def test_a_chain_cut_short_has_another_head(store):
    entries = store.ledger.entries()
    assert verify(iter(entries[:3])).head != store.ledger.verify().head
    assert verify(iter(entries[:3])).broken is None


def test_entries_of_one_dataset(store):
    store.datasets.create(make_spec("other"))
    assert [entry.dataset for entry in store.ledger.entries("other")] == ["other"]
    assert [entry.number for entry in store.ledger.entries(after=4)] == [5, 6]
    assert isinstance(store.ledger.entries()[0], Entry)


def test_an_entry_is_undone_with_its_action(store):
    def act():
        with store._database.transaction():
            store.ledger.append("never", "clinic")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        act()
    assert store.ledger.verify().entries == 5


def test_who_noted_a_head_notices_what_is_missing_or_new(store, tmp_path):
    entries = store.ledger.entries()
    for entry in entries:
        check_noted(entries, entry.number, entry.hash)
    check_noted(entries, 3, entries[2].hash[:16].upper())
    with pytest.raises(PpodcError, match="cut off: it ends with entry 4, and you noted 5"):
        check_noted(entries[:4], 5, entries[4].hash)
    with Store.open(tmp_path / "other", "cloud1") as other:
        for _ in entries:
            other.ledger.append("stop bit revealed", "clinic")
        assert other.ledger.verify().broken is None
        with pytest.raises(PpodcError, match="written anew: entry 5"):
            check_noted(other.ledger.entries(), 5, entries[4].hash)


@pytest.mark.parametrize(("number", "digits"), [(0, "0" * 64), (-1, "0" * 64), (5, "12345678")])
def test_too_little_was_noted(store, number, digits):
    with pytest.raises(InputError, match="at least 16 digits"):
        check_noted(store.ledger.entries(), number, digits)
