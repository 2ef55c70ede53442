"""The other cloud's testimony on the one that is audited, and what it proves.

It holds that cloud's ledger, and of every session what the audited cloud has signed: commitments to
seeds, and running digests after steps. No share and no seed is in it.

A cloud may lie about its peer, or keep answers from it. So testimony proves a deviation only by the
audited cloud's own signature: a commitment that it cannot open, or a step that its record lacks.
Whatever else does not fit is a doubt: either cloud may be the cause, and the words say so. An
honest cloud gives no such proof, since it keeps seeds and records before it signs anything.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ppodc.errors import DeviationError, OptionError, PpodcError
from ppodc.pairs.statements import StepPlace, commitment_statement, statement_heads, verified
from ppodc.records.upload_form import Cloud
from ppodc.service.ledger_entries import Entry, check_crossed, verify
from ppodc.service.sealed_uploads import Upload
from ppodc.service.store import Store
from ppodc.transport.message_log import Heads

VERSION = 1
OPENED, _REPLACED = "audit session opened", "audit pair replaced"
_ERASED = "audit record erased"


class SignedOffer(msgspec.Struct, frozen=True):
    """A commitment that the audited cloud gave to the other cloud."""

    session_id: str
    pair: str
    commitment: bytes
    signature: bytes


class SignedStep(msgspec.Struct, frozen=True):
    """Running digests that the audited cloud has signed."""

    session_id: str
    pair: str
    step: int
    statement: bytes
    signature: bytes


class Testimony(msgspec.Struct, frozen=True):
    """All that one cloud tells an auditor about the other."""

    version: int
    role: Cloud
    ledger: list[Entry]
    offers: list[SignedOffer]
    steps: list[SignedStep]


def testimony(store: Store, dataset: str) -> Testimony:
    """This cloud's testimony on a dataset; of other datasets it has the hashes of entries."""
    store.datasets.get(dataset)
    sessions = [at.session_id for at in store.audits.sessions(dataset)]
    offers = [
        SignedOffer(at, pair.pair, pair.peer_commitment, pair.peer_signature)
        for at in sessions
        for pair in store.audits.pairs(at)
    ]
    steps = [
        SignedStep(at, step.pair, step.step, step.statement, step.peer_signature)
        for at in sessions
        for step in store.audits.steps(at)
    ]
    role: Cloud = 1 if store.role == "cloud1" else 2
    return Testimony(VERSION, role, shown_entries(store, dataset), offers, steps)


def read_testimony(file: Path) -> Testimony:
    """Read the file that `ppodc audit ledger` wrote."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Testimony)
    except (OSError, msgspec.MsgspecError) as error:
        raise OptionError(f"{file} is not by `ppodc audit ledger` ({error}).") from None
    if found.version != VERSION:
        raise OptionError(f"{file} is by another release.")
    return found


def shown_entries(store: Store, dataset: str) -> list[Entry]:
    """The ledger as an auditor of this dataset gets it."""
    return [e if e.dataset == dataset else e.hide() for e in store.ledger.entries()]


@dataclass(frozen=True, slots=True)
class Told:
    """A ledger's entries on the sessions of a dataset."""

    commitments: Mapping[tuple[str, str, str], str]  # by session, cloud and pair
    keys: Mapping[tuple[str, str], str]  # by session and cloud
    resumed: Mapping[str, int | None]  # by session, in the order of the ledger
    uploads: frozenset[tuple[str, str, int]]
    erased: bool

    def keys_of(self, role: int) -> set[bytes]:
        """All signing keys of a cloud."""
        return {bytes.fromhex(key) for (_, who), key in self.keys.items() if who == _cloud(role)}


def told(entries: Sequence[Entry], dataset: str) -> Told:
    """Read a ledger; DeviationError if its chain is broken or an entry makes no sense."""
    found = verify(iter(entries))
    if found.broken is not None:
        raise DeviationError(f"is broken at entry {found.broken}: {found.reason}")
    try:
        return _told(entries, dataset)
    except (KeyError, ValueError, TypeError, AttributeError):
        raise DeviationError("has entries on the dataset that make no sense") from None


def _told(entries: Sequence[Entry], dataset: str) -> Told:
    commitments, keys, resumed = {}, {}, {}
    for event, detail in _details(entries, dataset, OPENED, _REPLACED):
        session = str(detail["session"])
        if event == OPENED:
            resumed[session] = detail["resumed"]
        for name in (name for name in detail if name.startswith("cloud")):
            who, _, what = name.partition(" ")
            value = bytes.fromhex(detail[name]).hex()
            if what == "key":
                keys[session, who] = value
            else:
                commitments[session, who, what] = value
    committed = _details(entries, dataset, "upload committed")
    return Told(
        commitments,
        keys,
        resumed,
        frozenset((at["upload"], at["owner"], at["rows"]) for _, at in committed),
        any(True for _ in _details(entries, dataset, _ERASED)),
    )


def _details(
    entries: Sequence[Entry], dataset: str, *events: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in entries:
        if entry.event in events and entry.dataset == dataset:
            yield entry.event, json.loads(entry.detail)


def _cloud(role: int) -> str:
    return f"cloud{role}"


@dataclass(frozen=True, slots=True)
class Audited:
    """The claims of the audited cloud's bundle, checked against its own ledger."""

    role: Cloud
    dataset: str
    job: str
    uploads: Sequence[Upload]
    ledger: Sequence[Entry]
    told: Told  # by its ledger
    commitments: frozenset[bytes]  # to all seeds that it can show, offers without an answer too
    signed: Mapping[str, Mapping[tuple[str, int], Heads]]  # by both clouds, in each session


@dataclass(slots=True)
class Examined:
    """The findings of testimony: steps that bind the audited cloud, and doubts."""

    bound: dict[str, dict[tuple[str, int], Heads]] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)


def examine(own: Audited, other: Testimony) -> Examined:
    """Compare a bundle with the other cloud's testimony; DeviationError for what is proved."""
    if other.role == own.role:
        raise OptionError(
            f"the ledger is cloud {other.role}'s own; the other cloud's is needed to check it."
        )
    found = Examined({at: {} for at in own.signed})
    _ledgers(own, other, found)
    _offers(own, other, found)
    _steps(own, other, found)
    return found


def _ledgers(own: Audited, other: Testimony, found: Examined) -> None:
    """Compare the ledgers. Neither is signed, so a difference proves nothing."""
    whose = f"the ledger of cloud {other.role}"
    try:
        theirs = told(other.ledger, own.dataset)
    except DeviationError as error:
        found.doubts.append(f"{whose} {error}.")
        return
    try:
        check_crossed(other.ledger, own.ledger)
    except (PpodcError, ValueError, KeyError, TypeError) as error:
        found.doubts.append(f"{whose} has noted other heads of cloud {own.role}'s: {error}")
    if {(u.upload_id, u.owner, u.rows) for u in own.uploads} - theirs.uploads:
        found.doubts.append(f"{whose} does not have all uploads.")
    if theirs.erased:
        found.doubts.append(
            f"cloud {other.role} has erased its record. Steps that cloud {own.role} has signed and "
            "now withholds cannot be found."
        )
    shown = {(at.session_id, at.pair, at.commitment.hex()) for at in other.offers}
    for (session, who, pair), said in theirs.commitments.items():
        unknown = bytes.fromhex(said) not in own.commitments
        if who == _cloud(own.role) and unknown and (session, pair, said) not in shown:
            found.doubts.append(
                f"{whose} names a commitment of cloud {own.role} in session {session}, pair "
                f"{pair}, that the bundle lacks, and shows no signature under it."
            )
    for session, signed in own.signed.items():
        _session(own, theirs, session, {pair for pair, _ in signed}, found.doubts, whose)
    common = [at for at in own.told.resumed if at in theirs.resumed]
    if common != [at for at in theirs.resumed if at in own.told.resumed]:
        found.doubts.append(f"{whose} has the sessions in another order.")


def _session(
    own: Audited, theirs: Told, session: str, pairs: set[str], doubts: list[str], whose: str
) -> None:
    """Compare a session in both ledgers. One without signed steps may be missing in one."""
    if not pairs:
        return
    place = f"session {session}"
    for pair in sorted(pairs):
        for cloud in ("cloud1", "cloud2"):
            at = (session, cloud, pair)
            if theirs.commitments.get(at) != own.told.commitments.get(at):
                doubts.append(
                    f"both clouds have signed steps of pair {pair} in {place}, and {whose} has "
                    f"another commitment of {cloud} to its seed, or none."
                )
    doubts += [
        f"{whose} names another signing key of {cloud} in {place}, or none."
        for cloud in ("cloud1", "cloud2")
        if theirs.keys.get((session, cloud)) != own.told.keys.get((session, cloud))
    ]
    if theirs.resumed.get(session) != own.told.resumed.get(session):
        doubts.append(f"{whose} says that {place} went on from another iteration.")


def _offers(own: Audited, other: Testimony, found: Examined) -> None:
    """Every commitment that the audited cloud has signed is one that it can open."""
    keys = own.told.keys_of(own.role)
    for at in other.offers:
        if at.commitment in own.commitments:
            continue
        statement = commitment_statement(own.job, own.role, at.pair, at.commitment)
        if any(verified(key, at.signature, statement) for key in keys):
            raise DeviationError(
                f"it has signed a commitment to a seed of pair {at.pair} that the bundle lacks; "
                f"cloud {other.role} got it in session {at.session_id}."
            )
        found.doubts.append(
            f"cloud {other.role} shows a commitment in session {at.session_id}, pair {at.pair}, "
            f"that the bundle lacks and that cloud {own.role} has not signed."
        )


def _steps(own: Audited, other: Testimony, found: Examined) -> None:
    """The audited cloud is bound to every step that it has signed, also if it has no answer."""
    keys = own.told.keys_of(own.role)
    for at in other.steps:
        place = StepPlace(own.job, at.session_id, at.pair, at.step)
        where = f"step {at.step} of pair {at.pair} in session {at.session_id}"
        try:
            heads = statement_heads(at.statement, place, own.role)
        except DeviationError:
            heads = None
        if heads is None or not any(verified(key, at.signature, at.statement) for key in keys):
            found.doubts.append(
                f"cloud {other.role} shows a signature under {where} that is not cloud "
                f"{own.role}'s."
            )
            continue
        if at.session_id not in own.signed:
            raise DeviationError(f"it has signed {where}, and the bundle lacks that session.")
        both = own.signed[at.session_id].get((at.pair, at.step), heads)
        if both != heads:
            raise DeviationError(f"it has signed two different records of {where}.")
        found.bound[at.session_id][at.pair, at.step] = heads
