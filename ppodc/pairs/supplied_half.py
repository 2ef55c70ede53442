"""A half that computes on shares: all that it prepares are supplies of its session."""

from abc import abstractmethod
from collections.abc import Sequence

from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.pairs.cloud_side import PairHalf
from ppodc.pairs.plan import Progress


class SuppliedHalf(PairHalf):
    """A half with a session of the two-party engine."""

    _session: Session

    @abstractmethod
    def _missing(self, iterations: int, rows: Sequence[int] | None) -> Needs:
        """Supplies that are missing for these iterations over shards of these sizes."""

    def to_prepare(self, iterations: int, rows: Sequence[int] | None = None) -> int:
        """Transfers that `prepare` would make now."""
        return self._missing(iterations, rows).work

    def prepare(
        self,
        iterations: int,
        progress: Progress | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """Make the missing supplies."""
        with self._session.step("prepare", offline=True):
            self._session.supplies.prepare(self._missing(iterations, rows), progress)
