"""Ctrl-C while a job runs: the command ends and says where the job stands and how it goes on."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import master.job
from ppodc.cli import app
from ppodc.kmeans.job import Job
from ppodc.records.schema import Column, Schema
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, load
from ppodc.service.store import Store
from ppodc.spec import Spec
from tests.service.data import members


@pytest.mark.parametrize("command", ["run", "resume"])
def test_the_state_is_told(tmp_path: Path, monkeypatch, command: str):
    file = deployment.create(tmp_path / "d", 1, insecure_key_bits=256).party("cloud1").config
    with Store.open(load(file, Cloud1Config).store, "cloud1") as store:
        schema = Schema((Column("x", 0.0, 9.0),), 9)
        store.datasets.create(Spec("clinic", schema, Job(k=1), members("owner1")))

    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(master.job, f"{command}_job", interrupt)
    said = CliRunner().invoke(app, [command, "clinic", "--config", str(file)])
    assert said.exit_code == 130
    assert "interrupted. clinic: created; last change 20" in said.output
    assert ". Start it with: ppodc run clinic." in said.output
