"""`ppodc budget`: what was charged, for which dataset and file."""

import numpy as np
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.privacy.budget import POPULATION
from tests.client.test_cells import linkage, rows

runner = CliRunner()


def shown(*arguments) -> str:
    done = runner.invoke(app, ["budget", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_an_owner_sees_what_each_file_has_spent(platform, tmp_path):
    config, file = platform.deployment.party("ann").config, tmp_path / "people.csv"
    np.savetxt(file, rows(50), fmt="%d", delimiter=",", header="x,y", comments="")
    for name in ("links", "more"):
        platform.create(linkage(name))
    with platform.owner() as owner:
        owner.upload("links", file, progress=False)
        owner.upload("more", rows(50), progress=False)  # the same rows: the same cells
        owner.upload("more", rows(40), progress=False)
    said = shown("--config", config)
    assert said == shown("show", "--config", config)
    assert "\tlinks: people.csv; more\t4\t0.001\n" in said
    assert "\tmore\t4\t0.001\n" in said
    assert "spent: epsilon 8" in said
    assert "of at most 10" in said
    assert str(tmp_path) not in said


def test_a_folder_without_a_configuration(tmp_path):
    """As `ppodc link pair` leaves it; an older one does not say what for."""
    drawing = f'{{"data": "{POPULATION}", "name": "cells 1", "epsilon": "2", "delta": "0"}}'
    (tmp_path / "budget.json").write_text(f'{{"version": 1, "drawings": [{drawing}]}}')
    said = shown("--folder", tmp_path)
    assert "cells 1\tnot noted\t2\t0\n" in said
    assert "of at most" not in said
    assert shown("--folder", tmp_path, "--config", "x") == said, "a folder counts first"
    for wrong in ([], ["--folder", tmp_path / "none"]):
        refused = runner.invoke(app, ["budget", *map(str, wrong)])
        assert any(word in str(refused.exception) for word in ("whose budget", "no budget in"))
    assert not (tmp_path / "none").exists()
