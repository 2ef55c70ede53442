"""Output of `status`, and numbers of pairs that are refused before anything changes."""

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from master.job import run_job, status
from ppodc.errors import InputError
from ppodc.kmeans.job import Job
from ppodc.records.schema import Column, Schema
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, load
from ppodc.service.job_state import JobState
from ppodc.service.store import Store
from ppodc.spec import Spec
from tests.harness.patience import LONG
from tests.service.data import members

NAME = "d"


@pytest.fixture
def config(tmp_path: Path) -> Cloud1Config:
    parties = deployment.create(tmp_path / "d", 1, insecure_key_bits=256)
    config = load(parties.party("cloud1").config, Cloud1Config)
    with Store.open(config.store, "cloud1") as store:
        schema = Schema((Column("x", 0.0, 9.0),), 9)
        store.datasets.create(Spec(NAME, schema, Job(k=1), members("owner1")))
    return config


def under_way(config: Cloud1Config) -> None:
    with Store.open(config.store, "cloud1") as store:
        store.uploads.begin(NAME, "owner1", "0" * 32, 1)
        store.uploads.put_chunk("0" * 32, 0, np.zeros((1, 1), np.uint64))
        store.uploads.commit("0" * 32)
        store.seals.seal(NAME, ["0" * 32])
        store.jobs.transition(NAME, JobState.PREPARING)


def test_a_job_that_nobody_began(config):
    found = status(config, NAME)
    assert found.job.state == JobState.CREATED
    assert "ppodc run d" in found.advice


def test_a_job_whose_master_is_gone_says_so(config):
    under_way(config)
    found = status(config, NAME)
    assert "No master runs it" in found.advice
    assert "ppodc resume d" in found.advice


def test_the_last_change_is_never_blank(config):
    created = status(config, NAME).job.updated
    assert created.startswith("20")
    under_way(config)
    assert status(config, NAME).job.updated > created


def test_a_failed_job_says_how_its_data_go(config):
    under_way(config)
    with Store.open(config.store, "cloud1") as store:
        store.jobs.transition(NAME, JobState.FAILED, message="why")
    advice = status(config, NAME).advice
    assert "ppodc resume d;" in advice
    assert "ppodc cancel d, then ppodc dataset delete d" in advice


def _hold(folder: Path, held, done) -> None:
    from master.job import _lock

    with Store.open(folder, "cloud1") as store, _lock(store, NAME):
        held.set()
        done.wait(LONG)


def test_a_job_whose_master_works_needs_nothing(config):
    under_way(config)
    spawn = multiprocessing.get_context("spawn")
    held, done = spawn.Event(), spawn.Event()
    master = spawn.Process(target=_hold, args=(config.store, held, done))
    master.start()
    try:
        assert held.wait(LONG)
        assert status(config, NAME).advice == ""
    finally:
        done.set()
        master.join(LONG)
    assert "No master" in status(config, NAME).advice


@pytest.mark.parametrize("pairs", [0, -3, 513])
def test_numbers_of_pairs_that_cannot_be(config, pairs):
    with pytest.raises(InputError, match="1 to 512 worker pairs"):
        run_job(config, NAME, pairs=pairs)
    assert status(config, NAME).job.state == JobState.CREATED
