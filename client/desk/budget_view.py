"""An owner's privacy budget, as pages show it."""

from dataclasses import dataclass
from fractions import Fraction

from ppodc.privacy.budget import POPULATION, PrivacyBudget
from ppodc.service.config import OwnerConfig


@dataclass(frozen=True, slots=True)
class BudgetView:
    """Epsilon that is spent, its limit, and (what for, epsilon) of each charge."""

    spent: float
    limit: float
    charges: list[tuple[str, float]]

    @property
    def left(self) -> float:
        return max(0.0, self.limit - self.spent)


def budget_of(config: OwnerConfig) -> BudgetView:
    """From the owner's folder; reading it spends nothing."""
    limit = Fraction(config.max_epsilon)
    if not (config.privacy / "budget.json").exists():
        return BudgetView(0.0, float(limit), [])
    drawings = PrivacyBudget(config.privacy / "budget.json", limit).drawings(POPULATION)
    charges = [
        ("; ".join(map(_study, drawing.uses)) or "not noted", float(drawing.cost[0]))
        for drawing in drawings
    ]
    return BudgetView(sum(cost for _, cost in charges), float(limit), charges)


def _study(use: str) -> str:
    """The study of a use; the desk's own copy of a table has a name that tells nobody anything."""
    return use.removesuffix(": strict.csv")
