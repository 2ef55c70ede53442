"""Uploads whose people are named: an account for each, the same person the same report."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cloud1.collector import collect
from ppodc.cli import app
from ppodc.errors import BudgetError, InputError, KeyFileError, StoreError
from ppodc.local_dp.owner_reports import OwnerReports
from ppodc.local_dp.report_streams import row_ids
from ppodc.privacy.accounts import PersonAccounts
from ppodc.privacy.guarantee import Guarantee
from tests.cloud1.one_server import numbers, numbers_spec
from tests.service.data import sealed_rows

runner = CliRunner()


def named(rows, first=0, seed=1):
    frame = pd.DataFrame(numbers(rows, seed), columns=["x", "y"])
    frame.insert(1, "who", [f"person {first + i}" for i in range(rows)])
    return frame


def rows_of(server, dataset):
    ids = [upload.upload_id for upload in server.store.uploads.of(dataset)]
    server.store.seals.seal(dataset, ids)
    return sealed_rows(server.store, dataset, 0, server.store.seals.sealed(dataset).m)


def test_the_same_people_get_the_same_reports_in_any_table(server, tmp_path):
    """Two tables in other orders, as a frame and as a file: one charge, equal reports."""
    for name in ("first", "second"):
        server.create(numbers_spec(name))
    frame, file = named(60), tmp_path / "people.csv"
    frame.iloc[::-1].to_csv(file, index=False)
    with server.owner("ann") as ann:
        ann.upload("first", frame, id_column="who", progress=False)
        before = OwnerReports(server.config("ann").parent / "privacy").people
        assert (before.people(), before.most().epsilon) == (60, pytest.approx(3.0))
        ann.upload("second", file, id_column="who", progress=False)
    after = OwnerReports(server.config("ann").parent / "privacy")
    assert after.people.most() == before.most()
    assert after.spent().epsilon == 0
    first, second = rows_of(server, "first"), rows_of(server, "second")
    assert np.array_equal(first, second[::-1])
    done = runner.invoke(app, ["budget", "show", "--config", str(server.config("ann"))])
    assert "60 people with accounts of their own" in done.output
    collect(server.store, "first")
    with server.owner("ann") as ann:
        assert len(ann.labels("first", file, id_column="who")) == 60


def test_nobody_spends_more_than_the_limit_and_a_refusal_charges_nobody(server):
    """3 + 3 + 3 of 10: who is in all tables is refused the fourth; others may go on."""
    for number in range(4):
        server.create(numbers_spec(f"survey{number}", seed=number))
    with server.owner("ann") as ann:
        for number in range(3):
            ann.upload(f"survey{number}", named(20), id_column="who", progress=False)
        with pytest.raises(BudgetError, match=r"^5 people would .* 10, one of them 12"):
            ann.upload("survey3", named(30, first=15), id_column="who", progress=False)
        accounts = OwnerReports(server.config("ann").parent / "privacy").people
        assert accounts.people() == 20, "those who could have afforded it were not charged either"
        assert not server.store.uploads.of("survey3")
        ann.upload("survey3", named(30, first=20), id_column="who", progress=False)
        with pytest.raises(BudgetError, match="already spent 9 of 10"):
            ann.upload("survey3", numbers(5, 9), progress=False)


def test_everybody_counts_for_each_person_too(tmp_path):
    owner = OwnerReports(tmp_path / "o", Fraction(5))
    records = np.arange(6).reshape(3, 2)
    owner.charge(b"m", records, Guarantee(3.0))
    with pytest.raises(BudgetError):
        owner.charge_people(b"m", row_ids(0, 3), records, Guarantee(2.5))
    assert owner.charge_people(b"m", row_ids(0, 3), records, Guarantee(2.0)) == 3
    assert owner.charge_people(b"m", row_ids(0, 3), records, Guarantee(2.0)) == 0
    with pytest.raises(BudgetError, match="spent 5 of 5"):
        owner.charge(b"other", records, Guarantee(0.5))
    owner.forget()
    assert (owner.people.people(), owner.spent().epsilon) == (0, 5.0), "accounts are not lost"
    with pytest.raises(BudgetError):
        owner.charge_people(b"m", row_ids(0, 1), records[:1], Guarantee(1.0))
    (tmp_path / "o" / "report.key").unlink()
    (tmp_path / "o" / "budget.json").unlink()
    fresh = OwnerReports(tmp_path / "o")
    fresh.charge_people(b"m", row_ids(0, 1), records[:1], Guarantee(1.0))
    (tmp_path / "o" / "report.key").unlink()
    with pytest.raises(KeyFileError, match="missing"):
        fresh.key()


def test_bad_names_and_wrong_jobs_are_refused(server):
    server.create(numbers_spec())
    frame = named(5)
    frame.loc[2, "who"] = None
    with server.owner("ann") as ann:
        with pytest.raises(InputError, match=r"'who' is empty in row 2"):
            ann.upload("survey", frame, id_column="who", progress=False)
        with pytest.raises(InputError, match="no one column named 'name'"):
            ann.upload("survey", named(5), id_column="name", progress=False)
        with pytest.raises(InputError, match="no one column"):
            ann.upload("survey", numbers(5, 1), id_column="who", progress=False)
        with pytest.raises(InputError, match="unknown columns 'who'"):
            ann.upload("survey", named(5), progress=False)
    assert not (server.config("ann").parent / "privacy" / "people.sqlite").exists()


def test_damaged_accounts_are_no_empty_accounts(tmp_path):
    path = tmp_path / "people.sqlite"
    path.write_bytes(b"not a database, but long enough to be taken for one" * 40)
    with pytest.raises(StoreError, match="backup"):
        PersonAccounts(path).most()
