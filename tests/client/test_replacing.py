"""A corrected table: owners hear that it adds to the wrong one, and can put it in its place."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from client.operator import Operator
from client.sending import Sender
from ppodc.cli import app
from ppodc.errors import InputError, RefusedError
from ppodc.kmeans.private.job import NoisyJob
from ppodc.local_dp.owner_reports import OwnerReports
from ppodc.records.encode import encode
from ppodc.service.config import OwnerConfig, load
from ppodc.spec import Spec
from tests.client.two_gateways import table
from tests.service.data import make_spec

WRONG, RIGHT = table(12, 1), table(11, 2)


@pytest.fixture
def command(platform, tmp_path):
    """`ppodc upload clinic right.csv ...` as ann would."""
    file = tmp_path / "right.csv"
    pd.DataFrame(RIGHT, columns=make_spec().schema.names).to_csv(file, index=False)
    config = str(platform.deployment.party("ann").config)

    def upload(*options: str):
        return CliRunner().invoke(
            app, ["upload", "clinic", str(file), "--config", config, *options]
        )

    return upload


def events(platform) -> list[list[str]]:
    told = ("upload committed", "upload withdrawn")
    return [
        [entry.event for entry in store.ledger.entries() if entry.event in told]
        for store in platform.stores
    ]


def test_other_data_add_and_the_receipt_says_so(platform):
    with platform.owner() as ann, platform.owner("bob") as bob:
        bob.upload("clinic", table(5, 3))
        assert ann.upload("clinic", WRONG).before == ()
        second = ann.upload("clinic", RIGHT)
        assert (second.rows, second.rows_before, second.replaced) == (11, 12, False)
        assert ann.upload("clinic", RIGHT).rows_before == 12
        assert [upload.rows for upload in ann.uploads("clinic")] == [12, 11]


@pytest.mark.parametrize("added", [False, True])
def test_replacing_withdraws_what_was_there_at_both_clouds(platform, added):
    with platform.owner() as ann:
        wrong = ann.upload("clinic", WRONG)
        if added:
            ann.upload("clinic", RIGHT)
        right = ann.upload("clinic", RIGHT, replace=True)
        assert right.replaced
        assert [upload.upload_id for upload in right.before] == [wrong.upload_id]
        assert ann.upload("clinic", RIGHT, replace=True).before == ()
    assert events(platform) == [["upload committed"] * 2 + ["upload withdrawn"]] * 2
    platform.seal()
    assert np.array_equal(platform.records(), encode(RIGHT, make_spec().schema))


def test_what_is_sealed_cannot_be_replaced(platform):
    with platform.owner() as ann:
        ann.upload("clinic", WRONG)
        platform.seal()
        with pytest.raises((InputError, RefusedError), match="sealed"):
            ann.upload("clinic", RIGHT, replace=True)
    assert events(platform) == [["upload committed"]] * 2


def test_the_command_warns_with_both_counts_and_offers_to_replace(platform, command):
    assert "note" not in command().output
    with platform.owner() as ann:
        ann.upload("clinic", WRONG)
    said = command()
    assert "add to the 12 records that you uploaded before, which makes 23" in said.output
    assert "right.csv --replace" in said.output
    said = command("--replace")
    assert said.exit_code == 0
    assert "(already there; nothing was sent)\n" in said.output, "one line where it is piped"
    assert "withdrawn: 12 records, upload" in said.output
    assert events(platform)[0].count("upload withdrawn") == 1


def test_an_interrupted_upload_says_what_it_leaves(command, monkeypatch):
    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Sender, "_send_chunks", interrupt)
    said = command()
    assert said.exit_code == 130
    assert "does not count until both have all of it" in said.output
    assert "The same command goes on" in said.output


def test_an_operator_may_delete_at_one_cloud_alone(platform):
    with platform.owner() as ann:
        ann.upload("clinic", WRONG)
    platform.seal()
    with Operator.connect(platform.deployment.party("operator").config) as operator:
        operator.delete("clinic", 2)
    first, second = platform.stores
    assert not first.datasets.deleted("clinic")
    assert second.datasets.deleted("clinic")


@pytest.fixture
def spent(platform):
    """A dataset whose job spends privacy; what ann has spent."""
    schema = platform.stores[0].datasets.spec("clinic").schema
    platform.create(Spec("private", schema, NoisyJob(2, 1.0)))
    folder = load(platform.deployment.party("ann").config, OwnerConfig).privacy
    return lambda: OwnerReports(folder).spent().epsilon


def test_a_table_given_again_after_it_was_taken_back_is_charged_once(platform, spent):
    with platform.owner() as ann:
        ann.upload("private", table(5))
        ann.upload("private", table(5))
        ann.withdraw("private")
        assert not ann.upload("private", table(5)).repeated
        assert spent() == 1.0
        ann.upload("private", table(5, case=1), replace=True)
        assert spent() == 2.0
        ann.upload("private", table(5), replace=True)
        assert spent() == 2.0


def test_a_table_given_again_to_clouds_that_know_nothing_of_it_is_charged_again(platform, spent):
    with platform.owner() as ann:
        ann.upload("private", table(5))
    for store in platform.stores:  # as if both clouds had been set up anew
        with store.uploads._database.transaction() as sql:
            sql.execute("DELETE FROM chunk")
            sql.execute("DELETE FROM upload")
    with platform.owner() as ann:
        ann.upload("private", table(5))
    assert spent() == 2.0


def test_a_table_that_a_sealed_dataset_does_not_take_is_not_charged(platform, spent):
    with platform.owner() as ann:
        ann.upload("private", table(5))
        platform.seal("private")
        with pytest.raises(RefusedError, match="takes no more uploads"):
            ann.upload("private", table(5, case=1))
        assert spent() == 1.0
        assert ann.upload("private", table(5)).repeated
    assert spent() == 1.0


def test_a_table_that_counts_twice_is_charged_twice(platform, spent):
    with platform.owner() as ann:
        ann.upload("private", table(5))
    for record in load(platform.deployment.party("ann").config, OwnerConfig).uploads.glob("*.json"):
        record.unlink()  # the owner lost its records of uploads
    with platform.owner() as ann:
        ann.upload("private", table(5))
        assert len(ann.uploads("private")) == 2
    assert spent() == 2.0
