"""Halves of results: each cloud has one, and only an owner ever adds two of them up.

A half of an output is kept as bytes from the worker that made it to the owner: numbers of one fixed
width, little endian. Alone it is a random number. The value is (half of C1 + half of C2) mod the
modulus.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError, ProtocolError, WireError

MAX_MODULUS_BYTES = 1024
MAX_FACTS = 1000  # bytes of JSON; they stand in the ledger and in a header of the wire
_WORD = 1 << 64


def half_width(modulus: int) -> int:
    """Bytes of one value modulo `modulus`."""
    return max(1, ((modulus - 1).bit_length() + 7) // 8)


Table = tuple[list[str], list[list[Any]]]  # headings, and rows of texts and numbers


@dataclass(frozen=True, slots=True, eq=False)
class OutputShare:
    """One cloud's half of an output: `data` has a row of bytes for each value."""

    modulus: int
    data: NDArray[np.uint8] = field(repr=False)

    def __post_init__(self) -> None:
        shape = (self.data.shape[0] if self.data.ndim else 0, half_width(self.modulus))
        if self.modulus < 2 or self.data.dtype != np.uint8 or self.data.shape != shape:
            raise WireError("a half of an output does not fit its modulus.")

    @classmethod
    def of(cls, modulus: int, values: Iterable[int]) -> "OutputShare":
        """From numbers 0..modulus - 1."""
        width = half_width(modulus)
        data = b"".join(int(value).to_bytes(width, "little") for value in values)
        return cls(modulus, np.frombuffer(data, np.uint8).reshape(-1, width))

    @classmethod
    def of_words(cls, words: NDArray[np.uint64]) -> "OutputShare":
        """From numbers modulo 2^64, as they lie in memory."""
        flat = np.ascontiguousarray(words, "<u8").reshape(-1)
        return cls(_WORD, flat.view(np.uint8).reshape(-1, 8))

    @classmethod
    def of_limbs(cls, limbs: NDArray[np.uint64]) -> "OutputShare":
        """Make a share from numbers modulo 2^(64 L) as words, the lowest first: (n, L)."""
        rows, length = limbs.shape
        data = np.ascontiguousarray(limbs, "<u8").view(np.uint8).reshape(rows, 8 * length)
        return cls(1 << (64 * length), data)

    @classmethod
    def joined(cls, parts: Iterable["OutputShare"]) -> "OutputShare":
        """Halves of the same modulus, one behind the other."""
        listed = list(parts)
        if len({part.modulus for part in listed}) != 1:
            raise InputError("halves of different outputs cannot be joined.")
        return cls(listed[0].modulus, np.concatenate([part.data for part in listed]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OutputShare):
            return NotImplemented
        return self.modulus == other.modulus and np.array_equal(self.data, other.data)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.data)

    def rows(self, first: int, count: int) -> "OutputShare":
        """The half of `count` of the values."""
        return OutputShare(self.modulus, self.data[first : first + count])

    @property
    def values(self) -> list[int]:
        """The numbers; WireError if one lies beyond the modulus."""
        if self.modulus == _WORD:
            return [int(word) for word in self._words()]
        data, width = self.data.tobytes(), half_width(self.modulus)
        numbers = [
            int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)
        ]
        if numbers and max(numbers) >= self.modulus:
            raise WireError("a half of an output holds a value beyond its modulus.")
        return numbers

    def _words(self) -> NDArray[np.uint64]:
        return np.ascontiguousarray(self.data).view("<u8").reshape(-1).astype(np.uint64, copy=False)


def mismatch() -> ProtocolError:
    """The error for shares that cannot be of one result."""
    return ProtocolError(
        "the halves of the two clouds do not belong together. Ask their operators to run the job "
        "again."
    )


def open_output(*halves: OutputShare) -> list[int]:
    """The values that the clouds' halves hide; done by an owner, never by a cloud."""
    modulus = halves[0].modulus
    if len({(half.modulus, len(half)) for half in halves}) != 1:
        raise mismatch()
    if modulus == _WORD:
        opened: list[int] = np.add.reduce([half._words() for half in halves]).tolist()
        return opened
    columns = zip(*(half.values for half in halves), strict=True)
    return [sum(parts) % modulus for parts in columns]


def modulus_to_bytes(modulus: int) -> bytes:
    """The modulus itself, little endian."""
    return modulus.to_bytes((modulus.bit_length() + 7) // 8, "little")


def modulus_from_bytes(data: bytes) -> int:
    """The modulus again."""
    if not 1 <= len(data) <= MAX_MODULUS_BYTES:
        raise WireError("the modulus of an output has an impossible size.")
    return int.from_bytes(data, "little")


@dataclass(frozen=True, slots=True)
class ResultShare:
    """One cloud's half of a job's result, whatever its kind.

    `facts` are public to both clouds and equal at both (numbers of iterations and the like).
    `halves` go to every owner of records in the dataset; `row_halves` hold a value for each sealed
    row, of which an owner gets those of its own rows. `own_halves` are outputs of which each owner
    has one of its own: by name, then by owner.
    """

    facts: Mapping[str, Any]
    halves: Mapping[str, OutputShare]
    row_halves: Mapping[str, OutputShare] = field(default_factory=dict)
    own_halves: Mapping[str, Mapping[str, OutputShare]] = field(default_factory=dict)

    def for_owner(self, owner: str, places: Sequence[tuple[int, int]]) -> "ResultShare":
        """The part for an owner whose uploads are at these (first sealed row, rows)."""
        rows = {
            name: OutputShare.joined(half.rows(*place) for place in places)
            for name, half in self.row_halves.items()
        }
        own = {name: by_owner[owner] for name, by_owner in self.own_halves.items()}
        return ResultShare(self.facts, {**self.halves, **own}, rows)


def pack_facts(facts: Mapping[str, Any]) -> bytes:
    """The facts as JSON with sorted keys and no blanks: equal facts are equal bytes."""
    packed = json.dumps(dict(facts), sort_keys=True, separators=(",", ":")).encode("ascii")
    if len(packed) > MAX_FACTS:
        raise InputError(f"the facts of a result are over {MAX_FACTS} bytes of JSON.")
    return packed


def unpack_facts(packed: bytes) -> dict[str, Any]:
    """Parse facts from another party; WireError if they are malformed."""
    try:
        facts = json.loads(packed) if len(packed) <= MAX_FACTS else None
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise WireError("the facts of a result do not decode.")
    return facts


def halves_digest(halves: Mapping[str, OutputShare], facts: bytes = b"") -> str:
    """A digest of what a cloud hands to an owner; it stands in the ledger of an audited job."""
    hasher = hashlib.sha256(b"ppodc halves 1" + hashlib.sha256(facts).digest())
    for name, half in sorted(halves.items()):
        told = f"{name} {half.modulus} {len(half)} ".encode()
        hasher.update(len(told).to_bytes(8, "big") + told + half.data.tobytes())
    return hasher.hexdigest()


@dataclass(frozen=True, slots=True)
class OpenedResult:
    """Both halves added up at an owner; `rows` are of its own records, in order of upload."""

    facts: Mapping[str, Any]
    values: Mapping[str, list[int]]
    rows: Mapping[str, list[int]]


def open_shares(*shares: ResultShare) -> OpenedResult:
    """Add up what all clouds have for an owner; ProtocolError if it is not of one result."""
    first = shares[0]
    if any(
        (each.facts, each.halves.keys(), each.row_halves.keys())
        != (first.facts, first.halves.keys(), first.row_halves.keys())
        for each in shares
    ):
        raise mismatch()
    values = {name: open_output(*(each.halves[name] for each in shares)) for name in first.halves}
    rows = {
        name: open_output(*(each.row_halves[name] for each in shares)) for name in first.row_halves
    }
    return OpenedResult(first.facts, values, rows)
