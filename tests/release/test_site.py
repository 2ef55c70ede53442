"""The documentation site: it builds without a warning, and its reference covers the code."""

import html
import json
import os
import re
import subprocess
import sys

import pytest

import ppodc
from ppodc import errors, kinds
from tests.harness.patience import LONG
from tests.release.bare import ROOT

pytest.importorskip("sphinx", reason="Sphinx is missing: make install brings it")
pytest.importorskip("myst_parser", reason="MyST is missing: make install brings it")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html",
         "-c", ROOT / "docs", "-d", folder / "doctrees", ROOT, folder / "html"],
        cwd=ROOT, capture_output=True, text=True, timeout=LONG,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "html"


def shown(site, page: str) -> str:
    """The text of a page, without its marks."""
    return html.unescape(re.sub(r"<[^>]+>", "", (site / "docs" / page).read_text()))


def test_every_public_name_is_documented(site):
    page = (site / "docs" / "reference" / "python.html").read_text()
    for name in ppodc.__all__:
        assert f'id="ppodc.{name}"' in page or f'id="module-ppodc.{name}"' in page, name


def test_the_reference_is_made_from_the_code(site):
    for name in kinds.ROOMS:
        assert f"--kind {name}" in shown(site, "reference/spec.html")
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind("").code for kind in classes if issubclass(kind, errors.PpodcError)}
    page = (site / "docs" / "reference" / "errors.html").read_text()
    assert {f">{code}<" in page for code in codes} == {True}
    assert "ppodc link pair" in shown(site, "reference/commands.html")
    assert "max_exact_releases" in shown(site, "reference/configuration.html")
    assert "ppodc_requests_total" in shown(site, "reference/metrics.html")
    assert "ppodc.mpc.lattice.parameters.DEGREE" in shown(site, "parameters.html")
    assert "gmpy2" in shown(site, "reference/licences.html")
    assert "generated:" not in shown(site, "reference/commands.html")


def test_measured_tables_are_made_from_stored_documents(site):
    page = shown(site, "measured.html").replace("\u2019", "'")
    source = (ROOT / "docs" / "measured.md").read_text()
    for file in (ROOT / "docs" / "measured").glob("*.json"):
        assert len(re.findall(rf"generated: measured .*\b{re.escape(file.name)}\b", source)) == 1
        document = json.loads(file.read_text())
        assert document["command"] in page
        for table in document["tables"]:
            assert table["rows"][0][0] in page, file.name
