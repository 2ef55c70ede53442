"""`PrivacyAccountant`: what several fits in Python spend together, as `ppodc budget` on disk.

Every fit under differential privacy in the block is charged before it runs, and refused if it would
pass the limit. Costs add up (basic composition), as exact fractions. All fits in the block count as
if they were about the same people; give other people an accountant of their own.
"""

from contextvars import ContextVar
from fractions import Fraction
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ppodc.errors import BudgetError, OptionError
from ppodc.extras import named_if_missing
from ppodc.kmeans.linked.columns import linkage_of
from ppodc.kmeans.private.job import NoisyJob
from ppodc.linkage.job import Job as LinkageJob
from ppodc.privacy.budget import PrivacyBudget, charged_for
from ppodc.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

    from ppodc.privacy.guarantee import PrivacyReport

_PEOPLE = "the people of a Python session"
_Charge = tuple[str, Fraction, Fraction]
_current: ContextVar["PrivacyAccountant | None"] = ContextVar("accountant", default=None)


class PrivacyAccountant:
    """Adds up what the fits in its block spend: `with PrivacyAccountant(epsilon=3): ...`.

    Parameters
    ----------
    epsilon : float, default=10
        The most that all fits together may spend.
    delta : float or None, default=None
        The most of their deltas; None sets no limit.
    file : path or None, default=None
        Keep the account in this file, for later sessions too.

    Examples
    --------
    >>> from ppodc import PrivacyAccountant
    >>> with PrivacyAccountant(epsilon=3) as account:
    ...     pass  # model.fit(...), as often as the limit allows
    >>> account
    PrivacyAccountant: spent epsilon 0, delta 0; left epsilon 3
    """

    def __init__(
        self, epsilon: float = 10, delta: float | None = None, *, file: str | Path | None = None
    ) -> None:
        if not epsilon > 0 or (delta is not None and not 0 <= delta < 1):
            raise OptionError("an accountant needs epsilon above 0 and a delta from 0 to below 1.")
        self._most = Fraction(str(epsilon))
        self._most_delta = None if delta is None else Fraction(str(delta))
        self._charges: list[_Charge] = []
        self._disk = None if file is None else PrivacyBudget(Path(file), self._most)
        if self._disk is not None:
            for drawing in self._disk.drawings(_PEOPLE):
                self._charges.append(("; ".join(drawing.uses), *drawing.cost))
        self._before: PrivacyAccountant | None = None

    @property
    def spent(self) -> tuple[float, float]:
        """(epsilon, delta) of all fits so far."""
        epsilon, delta = self._spent()
        return float(epsilon), float(delta)

    @property
    def left(self) -> float:
        """The epsilon that further fits may spend."""
        return float(self._most - self._spent()[0])

    def _spent(self) -> tuple[Fraction, Fraction]:
        zero = Fraction(0)
        return (
            sum((epsilon for _, epsilon, _ in self._charges), zero),
            sum((delta for _, _, delta in self._charges), zero),
        )

    def charge(self, what: str, epsilon: float | str, delta: float | str = 0) -> None:
        """Note an expense before it is made; BudgetError, and nothing noted, beyond the limit."""
        own, own_delta = Fraction(str(epsilon)), Fraction(str(delta))
        spent, spent_delta = self._spent()
        if spent + own > self._most:
            raise BudgetError(
                f"{what} would spend epsilon {float(own):g}; {float(spent):g} of "
                f"{float(self._most):g} is spent. Ask for less, or raise the accountant's limit if "
                "the people in the data may bear it."
            )
        if self._most_delta is not None and spent_delta + own_delta > self._most_delta:
            raise BudgetError(
                f"{what} would spend delta {float(own_delta):g}; {float(spent_delta):g} of "
                f"{float(self._most_delta):g} is spent."
            )
        if self._disk is not None:
            with charged_for(what):
                self._disk.spend(_PEOPLE, token_hex(8), own, own_delta)
        self._charges.append((what, own, own_delta))

    @named_if_missing()
    def to_frame(self) -> "pd.DataFrame":
        """A row for each expense: what for, epsilon and delta."""
        import pandas as pd

        rows = [(what, float(epsilon), float(delta)) for what, epsilon, delta in self._charges]
        return pd.DataFrame(rows, columns=["for", "epsilon", "delta"])

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        return (
            f"PrivacyAccountant: spent epsilon {epsilon:g}, delta {delta:g}; left epsilon "
            f"{self.left:g}"
        )

    def __enter__(self) -> Self:
        self._before = _current.get()
        _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.set(self._before)


def charge_job(spec: Spec) -> None:
    """Charge what a job spends, if it spends anything and an accountant is there."""
    if (account := _current.get()) is None:
        return
    if isinstance(spec.job, NoisyJob):
        cost = spec.job.guarantee().guaranteed
        account.charge("k-means with noise in the clouds", cost.epsilon, cost.delta)
        return
    linkage = linkage_of(spec).job
    if isinstance(linkage, LinkageJob) and linkage.blocking.cost[0]:
        epsilon, delta = linkage.blocking.cost
        account.charge("blocks of a linkage", str(epsilon), str(delta))


def charge_reports(report: "PrivacyReport") -> None:
    """Charge perturbed reports, which spend what they are guaranteed to."""
    if (account := _current.get()) is not None:
        cost = report.guaranteed
        account.charge("reports of a local job", cost.epsilon, cost.delta)
