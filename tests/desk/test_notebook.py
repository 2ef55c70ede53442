"""Results, specs and privacy reports as a notebook shows them."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from client.desk.notebook import html_of
from client.estimators.secure_kmeans import SecureKMeans
from client.platforms.notebook_line import NotebookLine, in_notebook
from client.platforms.threads import ThreadPlatform
from ppodc.kmeans.private.result import PrivateResult
from ppodc.kmeans.result import Result, ResultsByK
from ppodc.linkage.result import LinkCount, LinkResult
from ppodc.local_dp.result import LocalResult
from ppodc.notebook import ShownInNotebooks
from ppodc.privacy.guarantee import Guarantee, PrivacyReport
from ppodc.totals.result import Totals, totals
from tests.desk.world import SPECS, patients, spec_of
from tests.service.data import members

HOSTILE = "<script>alert(1)</script>"


@pytest.mark.parametrize("kind", list(SPECS))
def test_a_spec_says_what_it_reveals(kind):
    spec = replace(spec_of(kind), owners=members("north", "south"))
    html = spec._repr_html_()
    assert html == html_of(spec)
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


def test_correlations_of_every_two_columns():
    spec = spec_of("totals")
    cross = [[10, 8, 4], [8, 10, 4], [4, 4, 4]]
    html = html_of(totals(spec, 4, [4, 4, 4], [10, 10, 4], cross))
    assert "Correlations" in html
    assert '<td class="h2">0.667</td>' in html  # (4 * 8 - 16) / (4 * 10 - 16)
    assert ">none</td>" in html  # the third column does not vary


def test_what_limits_a_result_is_told_with_it():
    links = LinkResult([2, 0, 1], [(), (), (("south", 0, 4),)], 1)
    html = html_of(links)
    assert "Rows of yours with a partner: 2 of 3." in html
    assert "1 of 3 rows have more than max_links = 1 partners" in html
    spec = replace(spec_of("local"), owners=members("north", "south"))
    centres = np.full((2, 3), 100.0)
    noisy = LocalResult(
        centres, np.ones(2), 48, PrivacyReport(Guarantee(4.0, 0.0), (1.0, 1.0)), 9.0,
        spec.schema, None, centres,
    )  # fmt: skip
    assert "48 reports; noise 900% of an even cluster." in html_of(noisy)
    assert "the centres are largely made of noise" in html_of(noisy)


def test_plain_text_where_the_packages_of_the_desk_are_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "client.desk.notebook", None)
    assert spec_of("totals")._repr_html_() is None


@pytest.mark.parametrize(
    "shown", [Result, ResultsByK, PrivateResult, Totals, LinkResult, LinkCount, LocalResult]
)
def test_every_result_is_shown(shown):
    assert issubclass(shown, ShownInNotebooks)


def test_a_privacy_report():
    html = html_of(PrivacyReport(Guarantee(2.0, 1e-6), (1.0, 1.0)))
    assert "guaranteed epsilon 2 at delta 1e-06" in html


# ------------------------------------------------------------------------------------- progress


@pytest.fixture
def displayed():
    """The display of a notebook's cell: (HTML, whether it replaces an earlier one)."""
    pytest.importorskip("IPython", reason="IPython is not installed")
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.display_pub = publisher = CapturingDisplayPublisher()
    yield lambda: [(o["data"]["text/html"], o["update"]) for o in publisher.outputs]
    InteractiveShell.clear_instance()


def test_fit_shows_one_line_in_a_notebook(displayed, capsys):
    rows = patients(60, 0)
    bounds = [(0, 110), (60, 220), (1, 40)]
    SecureKMeans(3, bounds=bounds, platform=ThreadPlatform(), verbose=True).fit(rows)
    shown = displayed()
    assert [update for _, update in shown] == [False] + [True] * (len(shown) - 1)
    assert "<progress" in shown[-1][0]
    assert "done" in shown[-1][0]
    assert "iteration" not in capsys.readouterr().out  # no lines beside it
    SecureKMeans(3, bounds=bounds, platform=ThreadPlatform()).fit(rows)
    assert displayed() == shown  # nothing unless it is asked for


def test_a_line_says_where_a_job_stopped_and_escapes_it(displayed):
    def stop():
        with NotebookLine() as line:
            line.say(HOSTILE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stop()
    assert all(HOSTILE not in html for html, _ in displayed())
    assert "stopped; last: &lt;script&gt;" in displayed()[-1][0]


def test_a_terminal_is_no_notebook():
    assert not in_notebook()
