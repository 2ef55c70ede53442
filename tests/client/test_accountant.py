"""The accountant of a session: every fit is charged before it runs, none beyond the limit."""

import numpy as np
import pandas as pd
import pytest

from ppodc import (
    LocalPrivateKMeans,
    PrivacyAccountant,
    RecordLinkage,
    SecureKMeans,
    SecureTotals,
    rules,
)
from ppodc.errors import BudgetError, InputError
from tests.client.points import BOUNDS, points

pytestmark = pytest.mark.filterwarnings("ignore")


def test_fits_add_up_and_one_too_many_is_refused_before_it_runs(threads):
    model = SecureKMeans(2, bounds=BOUNDS, epsilon=1.5, delta=1e-6, platform=threads)
    tables = [points(40, 1), points(40, 2)]
    with PrivacyAccountant(epsilon=4, delta=1e-5) as account:
        model.fit(tables)
        LocalPrivateKMeans(2, epsilon=0.5, bounds=BOUNDS).fit(tables)
        assert account.spent == pytest.approx((2.0, 1e-6))
        model.fit(tables)
        centres = model.cluster_centers_
        with pytest.raises(BudgetError, match=r"would spend epsilon 1.5; 3.5 of 4 is spent"):
            model.fit(tables)
        assert model.cluster_centers_ is centres
        SecureTotals(bounds=BOUNDS, platform=threads).fit(tables)  # exact: costs no epsilon
    assert account.left == pytest.approx(0.5)
    assert account.to_frame()["epsilon"].tolist() == pytest.approx([1.5, 0.5, 1.5])
    model.fit(tables)
    assert len(account.to_frame()) == 3, "outside its block nothing is charged"


def test_blocks_of_a_linkage_are_charged(threads):
    frame = pd.DataFrame({"year": [1980, 1990, 2000]})
    linkage = RecordLinkage(
        rule=rules.all_of([rules.exact("year")]),
        bounds={"year": (1970, 2010)},
        blocks=rules.by_key("year", epsilon=2, delta=1e-6),
        platform=threads,
    )
    with PrivacyAccountant(epsilon=3) as account:
        linkage.fit([frame, frame])
        with pytest.raises(BudgetError, match="blocks of a linkage would spend epsilon 2"):
            linkage.fit([frame, frame])
    assert account.spent == (2.0, 1e-6)


def test_an_account_in_a_file_outlasts_its_session(tmp_path):
    file = tmp_path / "account" / "budget.json"
    PrivacyAccountant(2, file=file).charge("a survey", 1.5, "1/1000000")
    later = PrivacyAccountant(2, file=file)
    assert later.spent == (1.5, 1e-6)
    assert later.to_frame()["for"].tolist() == ["a survey"]
    with pytest.raises(BudgetError):
        later.charge("another", 1)
    later.charge("a small one", 0.5)
    assert PrivacyAccountant(2, file=file).left == 0


def test_blocks_may_stand_in_blocks():
    with PrivacyAccountant(9) as outer:
        with PrivacyAccountant(1) as inner:
            LocalPrivateKMeans(1, epsilon=1, bounds=(0, 1)).fit(np.zeros((20, 1)))
        LocalPrivateKMeans(1, epsilon=1, bounds=(0, 1)).fit(np.zeros((20, 1)))
    assert (inner.left, outer.left) == pytest.approx((0, 8), abs=1e-6)


@pytest.mark.parametrize("limits", [{"epsilon": 0}, {"delta": 1}, {"epsilon": -1}])
def test_limits_that_limit_nothing_are_refused(limits):
    with pytest.raises(InputError, match="an accountant needs"):
        PrivacyAccountant(**limits)


def test_the_elbow_and_a_plot_of_several_tables(threads):
    tables = [points(30, 1), points(30, 2)]
    model = SecureKMeans(2, bounds=BOUNDS, random_state=1, min_size=1, platform=threads)
    elbow = model.elbow(tables, [1, 2, 3])
    alone = model.set_params(inertia=True).fit(tables)
    assert elbow.loc[2, "inertia"] == alone.inertia_
    assert elbow.loc[2, "in_ranges"] == alone.inertia_ / 1000**2
    assert elbow.loc[2, "saved"] == pytest.approx(1 - alone.inertia_ / elbow.loc[1, "inertia"])
    axes = alone.result_.plot(tables)
    drawn = sum(len(part.get_offsets()) for part in axes.collections)
    assert drawn == 60 + 2
    hidden = model.set_params(min_size=31).elbow(tables, [1, 2, 3])
    assert hidden["inertia"].isna().any(), "clusters that are not told are in no inertia"
