"""The owner's privacy budget: exact sums, refusals that write nothing, restarts, two processes."""

import subprocess
import sys
from fractions import Fraction

import pytest

from ppodc.errors import BudgetError, InputError
from ppodc.privacy.budget import PrivacyBudget, charged_for
from tests.harness.patience import LONG

THIRD, NONE = Fraction(1, 3), Fraction(0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "owner" / "budget.json"


def test_sums_are_exact_and_the_limit_may_be_met_but_not_passed(path):
    budget = PrivacyBudget(path, Fraction(1))
    for number in range(3):
        assert budget.spend("data", f"drawing {number}", THIRD, Fraction(1, 10**6))
    assert budget.spent("data") == (Fraction(1), Fraction(3, 10**6))
    with pytest.raises(BudgetError, match="already spent 1 of 1"):
        budget.spend("data", "one more", Fraction(1, 10**30), NONE)
    assert budget.spend("other data", "one more", Fraction(1), NONE)


def test_a_restart_forgets_nothing_and_repeats_nothing(path):
    assert PrivacyBudget(path).spend("data", "drawing", Fraction(4), NONE)
    again = PrivacyBudget(path)
    assert not again.spend("data", "drawing", Fraction(4), NONE)
    assert again.spent("data") == (Fraction(4), NONE)
    assert [drawing.name for drawing in again.drawings()] == ["drawing"]
    assert path.stat().st_mode & 0o077 == 0


def test_what_a_drawing_was_for_stands_beside_it(path):
    """Each dataset and file once, however often they come; never more than the file's name."""
    budget = PrivacyBudget(path)
    with charged_for("links", path.parent / "people.csv"):
        assert budget.spend("data", "drawing", Fraction(4), NONE)
        assert not budget.spend("data", "drawing", Fraction(4), NONE)
    with charged_for("more-links", object()):
        assert not budget.spend("data", "drawing", Fraction(4), NONE)
    assert budget.spend("data", "another", Fraction(1), NONE)
    assert [each.uses for each in budget.drawings()] == [("links: people.csv", "more-links"), ()]
    assert str(path.parent) not in path.read_text()


def test_a_file_that_says_nothing_of_uses_is_read_and_goes_on(path):
    path.parent.mkdir()
    path.write_text(
        '{"version": 1, "drawings": [{"data": "d", "name": "n", "epsilon": "4", "delta": "0"}]}'
    )
    with charged_for("links"):
        assert not PrivacyBudget(path).spend("d", "n", Fraction(4), NONE)
    assert [each.uses for each in PrivacyBudget(path).drawings()] == [("links",)]


def test_a_name_stands_for_one_cost(path):
    budget = PrivacyBudget(path)
    budget.spend("data", "drawing", Fraction(1), NONE)
    with pytest.raises(InputError, match="another name"):
        budget.spend("data", "drawing", Fraction(2), NONE)
    assert budget.spent("data") == (Fraction(1), NONE)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (-1, 0), (1, -1), (1, 1)])
def test_a_drawing_that_cannot_be_is_refused(path, epsilon, delta):
    with pytest.raises(InputError):
        PrivacyBudget(path).spend("data", "drawing", Fraction(epsilon), Fraction(delta))
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"version": 2, "drawings": []}',
        '{"version": 1, "drawings": [{"data": "d", "name": "n", "epsilon": "-1", "delta": "0"}]}',
        '{"version": 1, "drawings": [{"data": "d", "name": "n", "epsilon": "1/0", "delta": "0"}]}',
    ],
)
def test_a_damaged_file_is_not_taken_for_an_unspent_budget(path, text):
    budget = PrivacyBudget(path)
    path.write_text(text)
    with pytest.raises(InputError, match="damaged"):
        budget.spend("data", "drawing", Fraction(1), NONE)
    assert path.read_text() == text


def test_two_processes_do_not_spend_the_same_rest(path):
    code = (
        "import sys\n"
        "from fractions import Fraction\n"
        "from pathlib import Path\n"
        "from ppodc.errors import BudgetError\n"
        "from ppodc.privacy.budget import PrivacyBudget\n"
        "for number in range(20):\n"
        "    try:\n"
        "        PrivacyBudget(Path(sys.argv[1])).spend('d', f'{sys.argv[2]} {number}',"
        " Fraction(1), Fraction(0))\n"
        "    except BudgetError:\n"
        "        break\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [process.wait(LONG) for process in both] == [0, 0]
    assert PrivacyBudget(path).spent("d") == (Fraction(10), NONE)
