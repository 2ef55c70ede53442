"""An owner's privacy budget: every expense is on disk before it is made, and stays there.

Each drawing of noise over the same data adds its (epsilon, delta) to what was drawn before (basic
composition). The file holds every drawing, by the digest of the data; a drawing that would pass
the owner's limit is refused, and nothing is written. A drawing is noted *before* its noise is
drawn and under a name of its own, so that a process killed in between has spent it and, going on
with what it drew, does not spend it twice.

The numbers are exact fractions: 3 times 1/3 is 1, and no rounding lets one more through.

Beside a drawing stands what it was for (`charged_for`): dataset and file, by name. The budget is
the owner's own, and nothing of it leaves.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from fractions import Fraction
from pathlib import Path

import msgspec

from ppodc.errors import BudgetError, InputError, OptionError
from ppodc.files import disk_errors, locked, private_folder, write_private
from ppodc.privacy.accounts import PersonAccounts

POPULATION = "everybody in this owner's data"  # the sum over all uploads bounds what anyone spends
DEFAULT_LIMIT = Fraction(10)  # epsilon over one set of data, if the owner says nothing
_VERSION = 1
_use: ContextVar[str] = ContextVar("what is charged for", default="")


@contextlib.contextmanager
def charged_for(dataset: str, data: object = None) -> Iterator[None]:
    """Note what is charged inside as for this dataset, and for this file if the data are one.

    Where charges are made records have no name any more; who gave them knows it.
    """
    file = f": {Path(data).name}" if isinstance(data, str | Path) else ""
    token = _use.set(f"{dataset}{file}")
    try:
        yield
    finally:
        _use.reset(token)


class Drawing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One drawing of noise over certain data; epsilon and delta as exact fractions in text."""

    data: str  # digest of the data
    name: str  # what was drawn, such as the digest of a spec; the same name is the same drawing
    epsilon: str
    delta: str
    uses: tuple[str, ...] = ()  # what for, each as "dataset" or "dataset: file"

    @property
    def cost(self) -> tuple[Fraction, Fraction]:
        """The pair (epsilon, delta)."""
        return Fraction(self.epsilon), Fraction(self.delta)


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    drawings: tuple[Drawing, ...]


class PrivacyBudget:
    """The budget file of one owner; processes may share it."""

    def __init__(self, path: Path, epsilon_limit: Fraction = DEFAULT_LIMIT) -> None:
        if epsilon_limit <= 0:
            raise OptionError("the limit of a privacy budget must be more than 0.")
        private_folder(path.parent)
        self._path, self._limit = path, epsilon_limit

    def drawings(self, data: str | None = None) -> list[Drawing]:
        """Every drawing, or those over the data of this digest, the oldest first."""
        return [drawing for drawing in self._read() if data is None or drawing.data == data]

    def spent(self, data: str) -> tuple[Fraction, Fraction]:
        """(epsilon, delta) of all drawings over the data of this digest."""
        return _total(self.drawings(data))

    def spend(self, data: str, name: str, epsilon: Fraction, delta: Fraction) -> bool:
        """Note a drawing, on disk when this returns; False if it stands there already.

        BudgetError, with nothing written, if it would pass the limit; InputError if the name
        stands for a drawing of another cost.
        """
        if epsilon <= 0 or not 0 <= delta < 1:
            raise OptionError("a drawing needs epsilon > 0 and 0 <= delta < 1.")
        with locked(self._path.with_name(f"{self._path.name}.lock")):
            before = self._read()
            own = [drawing for drawing in before if drawing.data == data]
            uses = (_use.get(),) if _use.get() else ()
            for drawing in own:
                if drawing.name == name:
                    self._check_same(drawing, epsilon, delta)
                    if not set(uses) <= set(drawing.uses):
                        more = msgspec.structs.replace(drawing, uses=(*drawing.uses, *uses))
                        self._write([more if each is drawing else each for each in before])
                    return False
            self._check(_total(own)[0] + self._most_of_one(data), epsilon)
            self._write([*before, Drawing(data, name, str(epsilon), str(delta), uses)])
        return True

    def _most_of_one(self, data: str) -> Fraction:
        """The most that one person may have spent besides, where people have accounts."""
        if data != POPULATION:
            return Fraction(0)
        return Fraction(PersonAccounts.beside(self._path).most().epsilon)

    def _check_same(self, drawing: Drawing, epsilon: Fraction, delta: Fraction) -> None:
        if drawing.cost != (epsilon, delta):
            raise OptionError(
                f"{drawing.name!r} is already noted with epsilon {drawing.epsilon}; a drawing of "
                "another cost needs another name."
            )

    def _check(self, spent: Fraction, epsilon: Fraction) -> None:
        if spent + epsilon > self._limit:
            raise BudgetError(
                f"this would spend epsilon {_words(epsilon)} on data that have already spent "
                f"{_words(spent)} of {_words(self._limit)}. Ask for less, or raise the limit if "
                "the people in the data may bear it."
            )

    def _read(self) -> tuple[Drawing, ...]:
        with disk_errors(self._path):
            if not self._path.exists():
                return ()
            data = self._path.read_bytes()
        try:
            document = msgspec.json.decode(data, type=_Document)
            costs = [drawing.cost for drawing in document.drawings]
        except (msgspec.MsgspecError, ValueError, ZeroDivisionError):
            raise self._damaged() from None
        sound = all(epsilon > 0 and delta >= 0 for epsilon, delta in costs)
        if document.version != _VERSION or not sound:
            raise self._damaged()
        return document.drawings

    def _write(self, drawings: list[Drawing]) -> None:
        document = _Document(_VERSION, tuple(drawings))
        write_private(self._path, msgspec.json.format(msgspec.json.encode(document)))

    def _damaged(self) -> InputError:
        return InputError(
            f"the privacy budget in {self._path} is damaged or of another version; without it "
            "nobody knows what the data have spent. Restore it from a backup."
        )


def _total(drawings: list[Drawing]) -> tuple[Fraction, Fraction]:
    costs = [drawing.cost for drawing in drawings]
    return sum((e for e, _ in costs), Fraction(0)), sum((d for _, d in costs), Fraction(0))


def _words(value: Fraction) -> str:
    return f"{float(value):.6g}"
