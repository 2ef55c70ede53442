"""The messages between the master and C2; all typed, nothing else is understood.

Operations are C1's alone. `open` starts a session for one sealed dataset and returns a ticket; the
operations after it need that ticket, and C2 does the next step of the job or none. Everything here
is public to both clouds: ids, counts, endpoints, channel keys, step names. States never travel.
"""

import hashlib
from typing import Annotated, Literal

from msgspec import Meta

from ppodc.errors import MAX_TEXT
from ppodc.names import Digest, Name
from ppodc.pairs.plan import Count, Step
from ppodc.pairs.statements import Committed, Digest32, Signed, SignedParts
from ppodc.service.ledger_entries import Head
from ppodc.service.sealed_uploads import Upload
from ppodc.transport.wire import Body

UPLOADS = "control.uploads"
TERMS = "control.terms"
SEAL = "control.seal"
OPEN = "control.open"
STEP = "control.step"
POLL = "control.poll"
REPLACE = "control.replace"
SETTLE = "control.settle"

PAGE = 200  # uploads in one answer
MAX_PAIRS = 512  # what a header can name
LONGEST_WAIT = 5.0  # seconds that `poll` may hold its answer back

Ticket = Annotated[bytes, Meta(min_length=16, max_length=16)]
Public = Annotated[bytes, Meta(min_length=40, max_length=40)]
Number = Annotated[int, Meta(ge=0, le=MAX_PAIRS)]
SessionId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Outcome = Literal["prepared", "done", "failed", "cancelled"]


def session_id(ticket: bytes) -> str:
    """The name under which both clouds store what a session made; it grants no access."""
    return hashlib.blake2b(ticket, digest_size=16).hexdigest()


class Uploads(Body, frozen=True):
    """`uploads`: what C2 has in full of this dataset, a page from this place in the list on."""

    dataset: Name
    spec: Digest
    first: Count


class UploadList(Body, frozen=True):
    """Answer to `uploads`; an empty page is the last.

    Of an audited dataset `fits` has a digest over both parts of each upload, as C2 knows them.
    """

    uploads: list[Upload]
    fits: tuple[Digest32, ...] = ()


class Terms(Body, frozen=True):
    """`terms`: would C2 run a job of this dataset so? Refused with the reason if not."""

    dataset: Name
    spec: Digest
    suite: Name
    pairs: Number


class Seal(Body, frozen=True):
    """`seal`: the records of the dataset in order; the upload ids are in the array (n, 16)."""

    dataset: Name
    spec: Digest
    head: Head | None = None  # of C1's ledger


class Sealed(Body, frozen=True):
    """Answer to `seal`: the digest under which C2 has sealed."""

    digest: Digest
    head: Head | None = None  # of C2's ledger


class Open(Body, frozen=True):
    """`open`: start or continue the job with these C1 workers, one per slot.

    With `prepare` the session only fills pools for this many iterations. A checkpoint goes with the
    session that made it, since halves of two sessions do not fit each other.
    """

    dataset: Name
    spec: Digest
    seal: Digest
    suite: Name
    pairs: Number
    shards_per_pair: Count
    prepare: Count
    checkpoints: list[tuple[Count, SessionId]]
    publics: list[Public]
    commitments: tuple[Committed, ...] = ()  # to the seeds of C1's halves, of an audited job
    word: SignedParts | None = None  # and what owners have told C1 of C2's parts


class PairEnd(Body, frozen=True):
    """A C2 worker's endpoint and key, and the commitment to its seed if audited."""

    endpoint: Annotated[str, Meta(max_length=256)]
    public: Public
    commitment: Committed | None = None


class Opened(Body, frozen=True):
    """Answer to `open`; `resume_from` is the iteration both go on from, None the start."""

    ticket: Ticket
    resume_from: Count | None
    ends: list[PairEnd]
    word: SignedParts | None = None


class RunStep(Body, frozen=True):
    """`step`: begin the next step on these slots, in the background."""

    ticket: Ticket
    step: Step
    attempt: Count
    slots: list[Number]


class Poll(Body, frozen=True):
    """`poll`: how far is the step? With `commit` C2 takes its results over if it has them all.

    C2 then begins the next step by itself, if there is one: C1 need not ask for it. In an iteration
    it answers first: both clouds write to their disks at the same time.
    """

    ticket: Ticket
    number: Count
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)]
    commit: bool
    signed: tuple[Signed, ...] = ()  # with `commit`, of an audited job
    head: Head | None = None  # with `commit`, of C1's ledger


class Failed(Body, frozen=True):
    """A slot that failed at C2; a fatal failure would come again on a fresh pair."""

    slot: Number
    text: str
    fatal: bool


class Progress(Body, frozen=True):
    """Answer to `poll`."""

    done: list[Number]
    failed: list[Failed]
    running: list[Number]
    committed: bool  # or, in an iteration, being written: the next request gets the error if not
    begun: bool  # the next step, on all its slots, as a first attempt
    signed: tuple[Signed, ...] = ()
    head: Head | None = None  # of C2's ledger, before it takes over a step of an iteration


class Replace(Body, frozen=True):
    """`replace`: throw the slot's worker away and start another for this C1 worker."""

    ticket: Ticket
    slot: Number
    public: Public
    commitment: Committed | None = None


class Settle(Body, frozen=True):
    """`settle`: the job has ended (or paused, as failed) at C1; C2 frees its workers."""

    dataset: Name
    seal: Digest | None
    outcome: Outcome
    message: Annotated[str, Meta(max_length=MAX_TEXT)]
    session_id: SessionId | None = None  # of C1's result, once the job is done
    head: Head | None = None  # of C1's ledger


class Settled(Body, frozen=True):
    """Answer to `settle`."""

    head: Head | None = None  # of C2's ledger


class Done(Body, frozen=True):
    """Answer of operations that have nothing else to say."""
