"""Explanations of a spec before any upload, and audits."""

import numpy as np
import pytest
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.crypto.random_stream import SecureRandom
from ppodc.local_dp.audit import audit, audit_mechanism, lower_bound
from ppodc.local_dp.explain import explain
from ppodc.local_dp.job import SAMPLE, Job
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.mechanism import FlippedBits
from ppodc.local_dp.published.bit_reports import privbv_as_published
from ppodc.local_dp.report_streams import ReportKey
from ppodc.privacy.concentrated import binomial_tail
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec

NUMBERS = Schema((Column("x", 0, 10), Column("y", 0, 10)))
CATEGORIES = Schema((Column("a", 0, 2), Column("b", 0, 1)))
runner = CliRunner()


def spec_of(mechanism, epsilon, schema=NUMBERS, **more):
    return Spec("survey", schema, Job(3, epsilon, mechanism, expected_rows=10_000, **more))


@pytest.mark.parametrize(
    ("mechanism", "schema", "more"),
    [
        ("codebook", NUMBERS, {}),
        ("codebook", NUMBERS, {"points": 4}),
        ("privbv", NUMBERS, {}),
        ("ldpseg", NUMBERS, {}),
        ("joint", CATEGORIES, {}),
        ("ldpk-modes", CATEGORIES, {}),
    ],
)
def test_an_honest_mechanism_shows_something_and_never_too_much(mechanism, schema, more):
    spec = spec_of(mechanism, 2.0, schema, **more)
    found = audit(spec, 6000, ReportKey.from_seed(1))
    assert 0.3 < found <= form_of(spec).mechanism.guarantee().guaranteed.epsilon


def test_the_published_claim_is_shown_wrong():
    """Claimed: epsilon 1. Seen at once: as much as the number of trials can show."""
    random = SecureRandom.public(0)
    published = FlippedBits(privbv_as_published(1, 50, b=1, bits=300, t=25, random=random))
    found = audit_mechanism(
        published, np.array([[0]]), np.array([[50]]), 2000, ReportKey.from_seed(1)
    )
    assert found > 5.5
    assert not published.guarantee().claim_holds


def test_the_bounds_of_a_rate():
    assert lower_bound(0, 100, 0.025) == 0.0
    assert lower_bound(50, 100, 0.025) == pytest.approx(0.3983, abs=1e-4)
    assert lower_bound(100, 100, 0.025) == pytest.approx(0.025 ** (1 / 100), abs=1e-6)
    assert binomial_tail(10, 0.5, 8) == pytest.approx(56 / 1024)


def test_what_is_said_before_the_upload():
    _, lines, notes = explain(spec_of("codebook", 0.5), rows=500)
    said = dict(lines)
    assert said["epsilon of one record, guaranteed"].startswith("0.5")
    assert float(said["noise, in parts of an even cluster"]) > 1
    assert any("too few" in note for note in notes)
    _, _, notes = explain(spec_of("codebook", 4.0), rows=1_000_000)
    assert any("enough" in note for note in notes)
    _, lines, notes = explain(spec_of("ldpseg", 1.0))
    assert "epsilon of one column" in dict(lines)
    assert any("codebook is far more accurate" in note for note in notes)


def test_the_commands(tmp_path):
    spec = tmp_path / "survey.toml"
    spec.write_text(SAMPLE)
    done = runner.invoke(app, ["privacy", "explain", str(spec), "--rows", "1000"])
    assert done.exit_code == 0, done.output
    assert "guaranteed epsilon 2" in done.output
    done = runner.invoke(app, ["privacy", "audit", str(spec), "--trials", "500"])
    assert "epsilon at least" in done.output
    folder = tmp_path / "deployment"
    done = runner.invoke(app, ["init", str(folder), "--kind", "local", "--owners", "1"])
    assert done.exit_code == 0, done.output
    config = str(folder / "owner1" / "owner.toml")
    done = runner.invoke(app, ["budget", "show", "--config", config])
    assert "spent: epsilon 0, of at most 10" in done.output
    assert runner.invoke(app, ["budget", "forget", "--config", config]).exit_code != 0
    done = runner.invoke(app, ["budget", "forget", "--config", config, "--charge"])
    assert done.exit_code == 0
    assert (folder / "owner1" / "privacy" / "report.key").stat().st_mode & 0o077 == 0
