"""The noise behaves as `ppodc privacy explain` says."""

import numpy as np
import pytest
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.crypto.random_stream import SecureRandom
from ppodc.kinds import named
from ppodc.kmeans.private.explain import centre_error, explain
from ppodc.kmeans.private.job import SAMPLE
from ppodc.kmeans.private.noisy_kmeans import NoisePlan, noisy_kmeans, two_clouds_noise
from ppodc.spec import Spec

runner = CliRunner()


def test_the_error_of_a_centre_is_as_foretold():
    random = np.random.default_rng(1)
    centres = np.array([[200, 300], [800, 200], [500, 800]])
    records = np.concatenate([random.normal(centre, 30, (1000, 2)) for centre in centres])
    records, plan = records.round().clip(0, 1000).astype(np.int64), NoisePlan(3, 2, 1000, 4.0, 1e-6)
    errors = []
    for run in range(6):
        keys = (SecureRandom(bytes([run, cloud]) * 16) for cloud in (1, 2))
        found = noisy_kmeans(records, plan, two_clouds_noise(plan, *keys)).centres
        nearest = [((found - centre) ** 2).sum(axis=1).argmin() for centre in centres]
        errors.append((found[nearest] - centres) / plan.ub)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(centre_error(plan, 3000), rel=0.5)


def test_few_records_are_said_to_be_too_few():
    spec = Spec.loads(SAMPLE)
    _, _, notes = explain(spec, 100)
    assert "too few records" in notes[0]
    _, lines, notes = explain(spec, 100_000)
    assert "noise moves a centre by about" in notes[0]
    assert len(notes) == 1
    assert "delta 1e-06 is no protection" in explain(spec, 1_000_000)[2][1]
    assert dict(lines)["epsilon of one record, guaranteed"] == "1 at delta 1e-06"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("private-kmeans", "either cloud, together with all other owners"),
        ("linkage", "Links, flags and counts are exact"),
        ("kmeans", "adds no noise and spends no budget"),
    ],
)
def test_every_kind_is_explained_by_the_command(tmp_path, kind, words):
    path = tmp_path / "spec.toml"
    path.write_text(named(kind).sample)
    told = runner.invoke(app, ["privacy", "explain", str(path), "--rows", "5000"])
    shown = (
        f"{told.output.replace('│', '')} {told.exception}"  # the command prints an error's words
    )
    assert words in " ".join(shown.split())
