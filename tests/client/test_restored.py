"""Words for owners and operators when a cloud is older than the other, or data were deleted."""

import sqlite3

import pytest
from typer.testing import CliRunner

from client.operator import Operator
from ppodc.cli import app
from ppodc.errors import InputError, RefusedError
from ppodc.service.job_state import JobState
from ppodc.service.store.job_lock import held, job_lock
from tests.client.two_gateways import finish_job, table
from tests.service.data import make_spec


def forget(platform, *statements: str) -> None:
    """Cloud 1 as it was before something came: what a restored copy does not have."""
    connection = sqlite3.connect(platform.stores[0].folder / "store.sqlite")
    connection.execute("PRAGMA foreign_keys=OFF")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def command(platform, party: str, *arguments) -> str:
    config = str(platform.deployment.party(party).config)
    done = CliRunner().invoke(app, [*map(str, arguments), "--config", config])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def row(text: str, name: str) -> list[str]:
    return next(line.split("\t") for line in text.splitlines() if line.startswith(f"{name}\t"))


def test_a_deleted_dataset_is_deleted_everywhere(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(5))
    assert row(command(platform, "operator", "dataset", "list"), "clinic")[1:4] == [
        "created", "1", "5",
    ]  # fmt: skip
    command(platform, "operator", "dataset", "delete", "clinic", "--yes")
    assert row(command(platform, "operator", "dataset", "list"), "clinic")[1:4] == [
        "deleted", "0", "0",
    ]  # fmt: skip
    assert row(command(platform, "ann", "datasets"), "clinic")[1] == "deleted"
    with platform.owner() as ann:
        assert [(each.deleted, each.rows) for each in ann.datasets()] == [(True, 0)]
        for ask in (lambda: ann.upload("clinic", table(5)), lambda: ann.result("clinic")):
            with pytest.raises(RefusedError, match="'clinic' was deleted here"):
                ask()


def test_a_deletion_at_one_cloud_alone_is_told(platform):
    command(platform, "operator", "dataset", "delete", "clinic", "--yes", "--cloud", "2")
    listed = row(command(platform, "operator", "dataset", "list"), "clinic")
    assert listed[1] == "created"
    assert "deleted at cloud 2 alone" in listed[-1]


def test_a_dataset_that_one_cloud_has_lost_is_listed(platform):
    platform.create(make_spec("newer"))
    with platform.owner() as ann:
        ann.upload("newer", table(4))
    forget(platform, "DELETE FROM dataset WHERE name = 'newer'")
    listed = row(command(platform, "operator", "dataset", "list"), "newer")
    assert listed[-1].startswith("NO: only at cloud 2")
    assert listed[2:4] == ["0", "0"], "what one cloud alone has does not count"
    assert row(command(platform, "ann", "datasets"), "newer")[-1].startswith("NO: only at cloud 2")
    assert row(command(platform, "operator", "dataset", "list"), "clinic")[-1] == "yes"
    with platform.owner() as ann:
        with pytest.raises(InputError, match="'newer' is not at cloud 1, which never"):
            ann.upload("newer", table(4))
        with pytest.raises(RefusedError, match="there is no dataset 'other' here"):
            ann.spec("other")
    with Operator.connect(platform.deployment.party("operator").config) as operator:
        assert [upload.rows for upload in operator.uploads("newer")] == [4]
        operator.delete("newer")
        assert {each.name: each.deleted for each in operator.datasets()}["newer"]


def test_an_upload_that_one_cloud_has_lost_does_not_count(platform):
    with platform.owner() as ann:
        first = ann.upload("clinic", table(5))
        forget(platform, "DELETE FROM chunk", "DELETE FROM upload")
        listed = ann.datasets()[0]
        assert (listed.uploads, listed.rows, listed.agreed) == (0, 0, True)
        assert "uploads differ" in listed.note
        again = ann.upload("clinic", table(5))
        assert not again.repeated
        assert again.before == ()
        assert [(each.upload_id, each.cloud) for each in again.lost] == [(first.upload_id, 1)]
        assert ann.datasets()[0].rows == 5
        third = ann.upload("clinic", table(6, 2))
        assert [upload.upload_id for upload in third.before] == [again.upload_id]
    said = command(platform, "operator", "dataset", "uploads", "clinic")
    states = {line.split("\t")[0]: line.split("\t")[3] for line in said.splitlines()[1:]}
    assert states[first.upload_id] == "committed at cloud 2, not at the other"
    assert states[again.upload_id] == states[third.upload_id] == "committed"


def test_the_command_tells_of_a_lost_upload(platform, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("c0,c1,c2\n" + "".join(f"{i},{i},{i}\n" for i in range(9)))
    command(platform, "ann", "upload", "clinic", file)
    forget(platform, "DELETE FROM chunk", "DELETE FROM upload")
    said = command(platform, "ann", "upload", "clinic", file)
    assert "cloud 1 has lost your earlier upload" in said
    assert "makes 18" not in said


def test_disk_of_a_dataset_is_told_to_operators(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(50))
        assert ann.datasets()[0].disk == 0, "owners are not told"
    platform.create(make_spec("empty"))
    with Operator.connect(platform.deployment.party("operator").config) as operator:
        disk = {each.name: each.disk for each in operator.datasets()}
    assert disk == {"clinic": 50 * 3 * 8, "empty": 0}
    platform.seal()
    finish_job(platform)
    with Operator.connect(platform.deployment.party("operator").config) as operator:
        after = {each.name: each.disk for each in operator.datasets()}
        assert after["clinic"] > disk["clinic"]
        operator.delete("clinic")
        assert {each.name: each.disk for each in operator.datasets()}["clinic"] == 0


def test_owners_hear_that_a_job_was_interrupted(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(5))
    platform.seal()
    store = platform.stores[0]
    with job_lock(store.folder, "clinic"):
        for state in (JobState.PREPARING, JobState.RUNNING):
            store.jobs.transition("clinic", state, iteration=3)
        assert "running (iteration 3)" in command(platform, "ann", "progress", "clinic")
    said = command(platform, "ann", "progress", "clinic")
    assert "interrupted after iteration 3" in said
    with platform.owner() as ann:
        assert "ppodc resume clinic" in ann.progress("clinic").waiting("clinic")
        with pytest.raises(Exception, match="interrupted after iteration 3"):
            ann.result("clinic", wait=False)


def test_asking_who_holds_a_job_keeps_nobody_out(tmp_path):
    assert not held(tmp_path, "a")
    with job_lock(tmp_path, "a"):
        assert held(tmp_path, "a")
    assert not held(tmp_path, "a")
    (tmp_path / "a.lock").touch()  # left by a kill
    assert not held(tmp_path, "a")
    with job_lock(tmp_path, "a"):
        assert held(tmp_path, "a")
