"""The ledger: every reveal and every step that fixes a set of records, in a chain of hashes.

Each entry holds the hash of the one before, so that an entry changed, removed or put in between
later is found by `verify`. Cutting off the newest entries leaves a shorter chain that still
verifies: whoever wants to notice that notes down the head (`verify().head`) from time to time, and
compares later (`check_noted`).

Each cloud also writes the head of the other's ledger into its own: when a dataset is sealed, after
each iteration and at the end of a job. Whoever reads both (`check_crossed`) notices a ledger that
was cut off or written anew, unless both clouds did it together.

Who learns what: an entry says it itself, under `learnt`. Owners may read the entries of their
datasets that are about all owners or about themselves, and which uploads were left out; operators
those about uploads and the life of a dataset, never a stop bit or who fetched what; auditors all of
them. What a reader may not see comes as a hidden entry, hashes alone, so that the chain still
holds.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from ppodc.errors import OptionError, PpodcError
from ppodc.transport.wire import Body

START = "0" * 64
NOTED = "other ledger noted"
CHANGED = "other ledger changed"
_SHORTEST = 16  # digits of a hash that somebody noted
HALF_GIVEN = "half given"  # how events end by which an owner gets a half of a result
LEFT_OUT = "upload left out"
FOR_OPERATORS = frozenset(
    {
        "dataset created",
        "upload committed",
        "upload withdrawn",
        LEFT_OUT,
        "upload expired",
        "dataset sealed",
        "job begun",
        "seal undone",
        "records deleted",
        "dataset deleted",
        "audit session opened",
        "audit pair replaced",
        "audit record exported",
        "audit record erased",
        NOTED,
        CHANGED,
        "key replaced",
    }
)


class Entry(Body, frozen=True):
    """One line of the ledger, as it is kept and as it travels; `detail` is canonical JSON."""

    number: int
    time: str
    event: str
    dataset: str
    detail: str
    previous: str
    hash: str

    @property
    def hidden(self) -> bool:
        """Whether only the hashes are shown."""
        return not self.event

    def describe(self) -> tuple[str, str]:
        """(detail, who learnt what), for people."""
        detail = json.loads(self.detail)
        learnt = detail.pop("learnt", "")
        return ", ".join(f"{key} {value}" for key, value in detail.items()), str(learnt)

    def hide(self) -> "Entry":
        """The entry as a link of the chain, without its content."""
        return Entry(self.number, "", "", "", "", self.previous, self.hash)

    def expected_hash(self) -> str:
        """SHA-256 over everything else in the entry."""
        fields = [self.number, self.time, self.event, self.dataset, self.detail, self.previous]
        return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()


class Head(Body, frozen=True):
    """The last entry of a ledger, as its cloud tells the other."""

    number: Annotated[int, Meta(ge=0, le=1 << 53)]
    hash: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`: `broken` is the number of the first entry that does not fit."""

    entries: int
    head: str
    broken: int | None = None
    reason: str = ""


def verify(entries: Iterator[Entry], after: tuple[int, str] = (0, START)) -> Verification:
    """Walk a chain from its start, or from an entry that is known; also for received entries."""
    count, previous = after
    for entry in entries:
        reason = ""
        if entry.number != count + 1:
            reason = f"entry {count + 1} is missing"
        elif entry.previous != previous:
            reason = "it does not continue the entry before it"
        elif not entry.hidden and entry.hash != entry.expected_hash():
            reason = "its content was changed"
        if reason:
            return Verification(count, previous, count + 1, reason)
        previous, count = entry.hash, count + 1
    return Verification(count, previous)


def check_crossed(entries: Sequence[Entry], other: Sequence[Entry]) -> int:
    """Compare what one ledger has noted of the other with that one; how many notes there are.

    PpodcError if the other was cut off or written anew. `entries` may hold hidden ones.
    """
    notes = 0
    for entry in entries:
        if entry.event not in (NOTED, CHANGED):
            continue
        detail = json.loads(entry.detail)
        if detail["number"]:
            check_noted(other, detail["number"], detail["hash"])
        if entry.event == CHANGED:
            raise PpodcError(
                f"entry {entry.number} says that the other cloud's ledger was shorter than before, "
                "or had changed."
            )
        notes += 1
    return notes


def check_noted(entries: Sequence[Entry], number: int, hash_: str) -> None:
    """Refuse a chain that has lost, or written anew, an entry that somebody noted."""
    if number < 1 or len(hash_) < _SHORTEST:
        raise OptionError(
            f"give the number of an entry and at least {_SHORTEST} digits of its hash."
        )
    if number > len(entries):
        raise PpodcError(
            f"the ledger was cut off: it ends with entry {len(entries)}, and you noted {number}."
        )
    if not entries[number - 1].hash.startswith(hash_.lower()):
        raise PpodcError(f"the ledger was written anew: entry {number} is not what you noted.")
