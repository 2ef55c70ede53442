"""Results, specs and privacy reports as a notebook shows them."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from client.desk.notebook import SHOWN, html_of
from ppodc.privacy.guarantee import Guarantee, PrivacyReport
from ppodc.totals.result import totals
from tests.desk.world import SPECS, spec_of
from tests.service.data import members

HOSTILE = "<script>alert(1)</script>"


@pytest.mark.parametrize(("module", "name"), SHOWN)
def test_every_type_is_where_a_notebook_looks(module, name):
    assert isinstance(getattr(import_module(module), name), type)


@pytest.mark.parametrize("kind", list(SPECS))
def test_a_spec_says_what_it_reveals(kind):
    spec = replace(spec_of(kind), owners=members("north", "south"))
    html = html_of(spec)
    assert spec.digest in html
    assert "learn" in html
    assert "<script" not in html


def test_totals_and_hostile_names():
    spec = spec_of("totals")
    first = replace(spec.schema.columns[0], name=HOSTILE)
    spec = replace(spec, schema=replace(spec.schema, columns=(first, *spec.schema.columns[1:])))
    html = html_of(totals(spec, 4, [1000, 2000, 4000], [10**6, 2 * 10**6, 4 * 10**6]))
    assert HOSTILE not in html
    assert "&lt;script&gt;" in html
    assert f"{np.float64(27.5):g}" in html  # the mean of the first column


def test_a_privacy_report():
    html = html_of(PrivacyReport(Guarantee(2.0, 1e-6), (1.0, 1.0)))
    assert "guaranteed epsilon 2 at delta 1e-06" in html
