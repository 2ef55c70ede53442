"""The guarantee for one record, beside the claim of a mechanism's source.

A claim never stands alone: wherever one is shown, kept or sent, the guarantee is beside it. Reports
stand in specs, receipts of uploads, results and ledgers; how a guarantee is worked out is the
business of the mechanisms (`ppodc.privacy.concentrated`).
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from ppodc.errors import OptionError
from ppodc.notebook import ShownInNotebooks

_LARGEST_USEFUL = 20  # an epsilon above it protects nobody


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Epsilon with its delta."""

    epsilon: float
    delta: float = 0.0

    def __str__(self) -> str:
        return f"{_number(self.epsilon)}" + (f" at delta {self.delta:g}" if self.delta else "")


@dataclass(frozen=True, slots=True)
class PrivacyReport(ShownInNotebooks):
    """The guarantee for one record, beside the claim of a mechanism's source.

    `guaranteed` is pure (delta = 0) unless the mechanism is approximate by design;
    `guaranteed_at_delta` is a smaller epsilon of the same reports, where one is known.
    """

    guaranteed: Guarantee
    per_attribute: tuple[float, ...]
    guaranteed_at_delta: Guarantee | None = None
    claimed: Guarantee | None = None
    source: str = ""
    claimed_for: str = ""
    unit: str = "record"

    @property
    def to_accept(self) -> float:
        """The epsilon that somebody must type out to agree to it: rounded up, never below."""
        return math.ceil(self.guaranteed.epsilon * 10) / 10

    @property
    def claim_holds(self) -> bool:
        """Whether nothing more than what is guaranteed is claimed."""
        return self.claimed is None or self.claimed.epsilon >= self.guaranteed.epsilon

    def __str__(self) -> str:
        return f"privacy of one {self.unit}: {self.brief}."

    @property
    def brief(self) -> str:
        """The guarantee, and the claim beside it if there is one."""
        text = f"guaranteed epsilon {self.guaranteed}"
        if self.guaranteed_at_delta is not None:
            text += f" ({self.guaranteed_at_delta})"
        if self.claimed is not None:
            claim = f"({_number(self.claimed.epsilon)}, {self.claimed.delta:.2g})"
            verdict = "" if self.claim_holds else "; that does not hold"
            text += f". {self.source} states {claim} for {self.claimed_for}{verdict}"
        return text

    def weak(self) -> str:
        """A warning about an epsilon beyond any use; empty for others."""
        if self.guaranteed.epsilon <= _LARGEST_USEFUL:
            return ""
        return (
            f"epsilon {_number(self.guaranteed.epsilon)} is no protection worth the name: a "
            f"{self.unit} may make a result e^{_number(self.guaranteed.epsilon)} times likelier. "
            f"Choose at most {_LARGEST_USEFUL}, better about 1."
        )

    def describe(self) -> list[str]:
        """Sentences for a person who agrees to it."""
        weak = [self.weak()] if self.weak() else []
        if self.claim_holds:
            return [str(self), *weak]
        return [
            str(self),
            *weak,
            f"Who agrees to it must type that out: --accept-epsilon {self._typed}",
        ]

    @property
    def _typed(self) -> str:
        return f"{self.to_accept:.1f}".removesuffix(".0")

    def check_accepted(self, typed: float | None) -> None:
        """Refuse a claim that does not hold, unless what is really spent was typed out."""
        if not self.claim_holds and not (typed is not None and typed >= self.guaranteed.epsilon):
            raise OptionError(
                f"{self} To agree to that, type it out: --accept-epsilon {self._typed} (in "
                "Python: accept_epsilon=...). `codebook` and `joint` need no such thing."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain types for results and ledgers."""
        return asdict(self)


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") if value >= 100 else f"{value:.4g}"
