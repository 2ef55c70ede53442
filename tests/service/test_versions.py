"""A store of another cloud, of another version or from before the first release is refused."""

import sqlite3
from pathlib import Path

import pytest

from ppodc.errors import StoreError
from ppodc.service.store import Store, versions


def change(folder: Path, script: str) -> None:
    with sqlite3.connect(folder / "store.sqlite") as database:
        database.executescript(script)


def dump(folder: Path) -> list[str]:
    with sqlite3.connect(folder / "store.sqlite") as database:
        return list(database.iterdump())


@pytest.fixture
def folder(tmp_path):
    Store.open(tmp_path / "store", "cloud1").close()
    return tmp_path / "store"


def refused(folder: Path, words: str, role: versions.Role = "cloud1") -> None:
    before = dump(folder)
    with pytest.raises(StoreError, match=words):
        Store.open(folder, role)
    assert dump(folder) == before


def test_a_store_opens_again(folder):
    with Store.open(folder, "cloud1") as store:
        assert store.datasets.all() == []


def test_a_store_of_the_other_cloud_is_not_touched(folder):
    refused(folder, r"store of cloud1, and this is cloud2\. Name another", "cloud2")


@pytest.mark.parametrize("version", [0, 1, 99])
def test_a_store_of_another_version_is_refused_with_advice(folder, version):
    change(folder, f"UPDATE format SET version = {version}")  # noqa: S608
    refused(folder, f"version {version}.*Install the release")


def test_a_store_from_before_the_first_release_is_refused_with_advice(folder):
    """Such a store has a table `about` with a version from 1 to 5."""
    change(folder, "ALTER TABLE format RENAME TO about; UPDATE about SET version = 5")
    refused(folder, "before the first release.*name an empty folder.*upload again")


def test_a_kill_while_the_tables_are_made_leaves_none(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(versions, "_TABLES", (*versions._TABLES, "SELECT * FROM nothing"))
        with pytest.raises(sqlite3.OperationalError, match="nothing"):
            Store.open(tmp_path / "store", "cloud1")
    assert len(dump(tmp_path / "store")) == 2  # BEGIN and COMMIT
    Store.open(tmp_path / "store", "cloud1").close()
