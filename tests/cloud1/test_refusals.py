"""Bad input of local jobs: refused before any perturbation, and no budget is spent.

What is wrong with a job is found when its spec is read, so no dataset of it can exist; what is
wrong with data, before a report key is used.
"""

import numpy as np
import pandas as pd
import pytest

from client import LocalPrivateDBSCAN, LocalPrivateKMeans, LocalPrivateKModes
from cloud1.collector import cancel, collect
from ppodc.errors import InputError
from ppodc.local_dp.job import Job
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.owner import ReportOwner
from ppodc.local_dp.published.kcluster import MATRIX_ROWS
from ppodc.local_dp.published.settings import setting_of
from ppodc.records.schema import Column, Schema
from ppodc.service.job_state import JobState
from ppodc.spec import Spec
from tests.cloud1.one_server import NUMBERS, numbers, numbers_spec


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ({"epsilon": 0.0}, "greater than 0"),
        ({"epsilon": -1.0}, "greater than 0"),
        ({"epsilon": float("nan")}, "greater than 0"),
        ({"epsilon": float("inf")}, "at most 1000"),
        ({"epsilon": 1000.5}, "at most 1000"),
        ({"epsilon": "2"}, "must be a number"),
        ({"epsilon": True}, "must be a number"),
        ({"k": 0}, "job.k must be a whole number from 1"),
        ({"k": 513}, "from 1 to 512"),
        ({"expected_rows": 0}, "expected_rows, or job.points"),
        ({"expected_rows": -5}, "job.expected_rows"),
        ({"points": 5000}, "job.points"),
        ({"points": 1}, "at least job.k"),
        ({"mechanism": "privbv", "bits": 0}, "job.bits"),
        ({"mechanism": "ldpseg", "bits": 65}, "from 1 to 64"),
        ({"mechanism": "privbv", "bits": 64, "epsilon": 1e-5}, "nothing but noise"),
        ({"mechanism": "codebook", "epsilon": 1e-7}, "nothing but noise"),
        ({"mechanism": "best"}, "must be one of"),
    ],
)
def test_jobs_that_cannot_be(job, reason):
    with pytest.raises(InputError, match=reason):
        numbers_spec(**job)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"b": 1e-7, "s": 10}, "nothing but noise"),
        ({"b": 1.0, "s": 0}, "whole number from 1"),
        ({"b": 1.0, "s": 5000}, "to 4096"),
        ({"b": 1.0, "s": 10, "t": -1}, "half the range"),
        ({"b": 1.0, "s": 10, "t": float("nan")}, "finite"),
        ({"b": 1.0, "s": 10, "u": 1}, "unknown key"),
    ],
)
def test_published_settings_that_cannot_be(setting, reason):
    def spec():
        job = Job(2, None, "privbv", as_published=setting_of("privbv", setting))
        return Spec("survey", NUMBERS, job)

    with pytest.raises(InputError, match=reason):
        spec()


def test_reports_of_too_many_bits():
    columns = tuple(Column(f"c{i}", 0, 9) for i in range(65))
    job = Job(2, None, "privbv", as_published=setting_of("privbv", {"b": 1.0, "s": 4096}))
    with pytest.raises(InputError, match="65 columns of 4096 bits are more than the 262144"):
        Spec("bits", Schema(columns), job)


def test_too_many_joint_cells_say_what_would_fit():
    columns = tuple(Column(f"c{i}", 0, 9) for i in range(7))
    with pytest.raises(InputError, match=r"4194304 that can be counted; give job.expected_rows"):
        Spec("cells", Schema(columns), Job(2, 1.0, "joint"))
    with pytest.raises(InputError, match=r"10000000 joint cells are more than .*4194304"):
        Spec("cells", Schema(columns), Job(2, 1.0, "ldpk-modes"))


def test_a_matrix_of_too_many_records_is_refused_before_anything_is_perturbed():
    model = LocalPrivateDBSCAN(bounds=(0, 1))
    with pytest.raises(ValueError, match="20001 records does not fit"):
        model.fit(np.zeros((MATRIX_ROWS + 1, 1)))
    assert not hasattr(model, "privacy_")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda f: f.assign(x=np.where(f.index == 3, 10.5, f.x)), "row 3, column 'x': above 10"),
        (lambda f: f.assign(y=np.where(f.index == 4, np.nan, f.y)), "row 4, column 'y': missing"),
        (lambda f: f.assign(y=np.where(f.index == 4, np.inf, f.y)), "row 4, column 'y': infinite"),
        (lambda f: f.assign(y="tall"), "not a number; .*and 1 more"),
        (lambda f: f.rename(columns={"x": "z"}), "missing columns 'x'; unknown columns 'z'"),
        (lambda f: f.iloc[:0], "no records"),
        (lambda f: f.to_numpy()[:, :1], "1 columns, not 2"),
        (lambda f: f.to_numpy().tolist(), "DataFrame, a numpy array or the path"),
    ],
    ids=["bounds", "missing", "infinite", "words", "names", "empty", "shape", "type"],
)
def test_bad_data_cost_nothing(server, monkeypatch, spoil, reason):
    """Nothing is perturbed, charged or sent; no report key is made."""
    monkeypatch.setattr(ReportOwner, "chunk", lambda *_: pytest.fail("perturbed"))
    server.create(numbers_spec())
    frame = pd.DataFrame(numbers(6, 1), columns=["x", "y"])
    with server.owner("ann") as ann, pytest.raises(InputError, match=reason):
        ann.upload("survey", spoil(frame), progress=False)
    privacy = server.config("ann").parent / "privacy"
    assert not list(privacy.glob("*")), "neither a key nor a charge"
    assert not server.store.uploads.of("survey")


def test_estimators_refuse_alike():
    data = np.array([[0.1, 0.2], [0.3, 0.4]])
    for model in (
        LocalPrivateKMeans(3, bounds=(0, 1)),
        LocalPrivateKMeans(2, bounds=(0, 1), epsilon=0.0),
        LocalPrivateKMeans(2, bounds=(0, 1), epsilon=1e-9),
        LocalPrivateKMeans(2, bounds=(0, 0.3)),
        LocalPrivateKMeans(2, bounds=(1, 0)),
        LocalPrivateKModes(2, categories=(2, 2)),
        LocalPrivateKModes(2, categories=(2, 2, 2)),
        LocalPrivateDBSCAN(bounds=(0, 1), bits=0),
        LocalPrivateDBSCAN(bounds=(0, 1), epsilon=1e-9),
    ):
        with pytest.raises(ValueError, match=r".") as caught:
            model.fit(data)
        assert not hasattr(model, "privacy_"), caught.value


def test_a_cancelled_job_stays_so(server):
    server.create(numbers_spec())
    with server.owner("ann") as ann:
        ann.upload("survey", numbers(50, 1), progress=False)
    assert cancel(server.store, "survey") == JobState.CANCELLED
    with pytest.raises(InputError, match="was cancelled"):
        collect(server.store, "survey")
    with pytest.raises(InputError, match="cancelled already"):
        cancel(server.store, "survey")


def test_a_collector_that_was_killed_starts_anew(server, monkeypatch):
    server.create(numbers_spec())
    with server.owner("ann") as ann:
        ann.upload("survey", numbers(300, 1), progress=False)
    mechanism = type(form_of(server.store.datasets.spec("survey")).mechanism)
    whole = mechanism.collect

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(mechanism, "collect", dies)
    with pytest.raises(KeyboardInterrupt):
        collect(server.store, "survey")
    assert server.store.jobs.get("survey").state == JobState.RUNNING
    monkeypatch.setattr(mechanism, "collect", whole)
    assert collect(server.store, "survey").m == 300
    assert server.store.jobs.get("survey").state == JobState.DONE
