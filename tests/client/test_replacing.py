"""A corrected table: owners hear that it adds to the wrong one, and can put it in its place."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from client import Owner
from client.operator import Operator
from ppodc.cli import app
from ppodc.errors import InputError, RefusedError
from ppodc.records.encode import encode
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
    assert "withdrawn: 12 records, upload" in said.output
    assert events(platform)[0].count("upload withdrawn") == 1


def test_an_interrupted_upload_says_what_it_leaves(command, monkeypatch):
    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Owner, "_send_chunks", interrupt)
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
