"""Two owners link their records between themselves: each is a party of the engine, no cloud is.

The same spec, encoding, blocks and protocols as a job on two clouds, with owner 1 in the place of
C1 and owner 2 in that of C2: each splits its rows in two shares, keeps one and gives the other
owner the other one. At the end each hands over its halves of the other's results.

1. Both compare release and digest of the spec (facts of the hello), then tell names and rows.
2. Owner 2 makes a Paillier key for the base transfers of this run.
3. Shares and, with blocks, cells with padded counts are exchanged; both compare the seal.
4. The steps of a linkage job (`plan`), one pair.
5. Halves of results are exchanged, and each opens its own.

Who learns what: an owner learns what the spec says of its own rows (links, flags or the number of
links), and the number of the other's rows; with blocks, instead of it, the other's cells and padded
counts, which is (epsilon, delta) differential privacy for records that match nothing. Both must
follow the protocol. Whoever is last to hand over halves may stop and leave the other without a
result.

Rounds and bytes: those of the job; besides, owner 2 sends its rows once, 8 bytes a number.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import KEY_BITS, PublicKey, SecretKey, generate
from ppodc.errors import InputError, PpodcError
from ppodc.linkage.half import LinkageHalf
from ppodc.linkage.job import job_of
from ppodc.linkage.kind import KIND
from ppodc.linkage.plan import LinkagePlan
from ppodc.linkage.result import LinkCount, LinkResult
from ppodc.mpc.messages import Link
from ppodc.pairs.plan import LEAD, Material, Place, Step, StepResults, due_step
from ppodc.pairs.progress import Event, Listener, ignore
from ppodc.records.names import Name
from ppodc.records.output_half import OpenedResult, OutputHalf, open_output
from ppodc.records.sharing import SEED_BYTES
from ppodc.records.upload_form import Arranges, Cloud, RowsPart, SeedPart
from ppodc.service.upload import MAX_ROWS, Sealed, Upload, outline_digest, seal_digest
from ppodc.spec import Spec
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Body

Outline = NDArray[np.uint32]
MAX_EPSILON = Fraction(10)
_NAME, _KEY, _EXTENTS = "pair.name", "pair.key", "pair.extents"
_OUTLINE, _RECORDS, _SEED, _SEAL, _HALF = (
    "pair.outline", "pair.records", "pair.seed", "pair.seal", "pair.half",
)  # fmt: skip
_CHUNK_VALUES = 1 << 19
_MOST_VALUES = 1 << 28  # numbers of the other's rows that are taken in: 2 GB of shares
_MAX_CELLS = 1 << 14
_Digest = Annotated[str, msgspec.Meta(min_length=64, max_length=64)]


class _Named(Body, frozen=True):
    """Who an owner is."""

    owner: Name


class _Key(Body, frozen=True):
    """Owner 2's Paillier key."""

    n: Annotated[bytes, msgspec.Meta(max_length=1024)]


class _Size(Body, frozen=True):
    """What follows: rows to compare, and cells (0: blocks do not tell any)."""

    rows: Annotated[int, msgspec.Meta(ge=0, le=MAX_ROWS)]
    cells: Annotated[int, msgspec.Meta(ge=0, le=_MAX_CELLS)]


class _Seed(Body, frozen=True):
    """The other share of owner 1's rows."""

    seed: Annotated[bytes, msgspec.Meta(min_length=SEED_BYTES, max_length=SEED_BYTES)]


class _Seal(Body, frozen=True):
    """A digest of all that both are about to compare."""

    digest: _Digest


@dataclass(frozen=True, slots=True)
class _Sent:
    """One owner's rows as they are compared: this end's share of them."""

    owner: str
    share: NDArray[np.uint64]
    outline: Outline | None


class DirectLinkage:
    """One owner's end. Making it checks spec and table; nothing is sent or charged before `run`."""

    def __init__(
        self,
        spec: Spec,
        data: Any,
        *,
        role: Cloud,
        owner: str,
        privacy: Path,
        max_epsilon: Fraction = MAX_EPSILON,
        header: bool = True,
    ) -> None:
        job_of(spec).check(spec.schema)
        if spec.owners is not None and owner not in spec.owners.names:
            raise InputError(f"the spec names other owners: {', '.join(spec.owners.names)}.")
        self.spec, self.role, self.owner = spec, role, owner
        self._form = KIND.upload(spec)
        self._values = self._form.encode(data, header=header)
        self._privacy, self._limit = privacy, max_epsilon

    @property
    def facts(self) -> dict[str, str]:
        """What both ends must have alike, for the hello."""
        return {"release": version("ppodc"), "linkage spec": self.spec.digest}

    def run(
        self, channel: Channel, progress: Listener = ignore, key: SecretKey | None = None
    ) -> LinkResult | LinkCount:
        """Link with the owner at the other end; `key` is owner 2's, made if it is left out.

        Whatever stops this end is told to the other.
        """
        try:
            return self._run(channel, progress, key)
        except BaseException as error:
            told = str(error) if isinstance(error, PpodcError) else "the other owner stopped it."
            channel.fail(told)
            raise

    def _run(
        self, channel: Channel, progress: Listener, key: SecretKey | None
    ) -> LinkResult | LinkCount:
        link = Link(channel)
        other = link.exchange_body(_NAME, _Named(self.owner), _Named).owner
        if other == self.owner:
            raise InputError(f"both owners are called {other!r}; one must take another name.")
        if self.spec.owners is not None and other not in self.spec.owners.names:
            raise InputError(f"the other owner calls itself {other!r}, whom the spec does not name")
        progress(self._event("exchanging shares"))
        material = Material(self._exchange_key(channel, key))
        own = self._own_rows(channel, other)
        theirs = self._their_rows(channel, other)
        sealed = self._sealed(link, own, theirs)
        half = LinkageHalf(self.role, channel, self.spec, sealed.m, material)
        plan = self._compare(half, sealed, own, theirs, progress)
        result = self._open(link, plan, sealed)
        half.close()
        return result

    # ------------------------------------------------------------------ before comparing

    def _exchange_key(self, channel: Channel, key: SecretKey | None) -> PublicKey | SecretKey:
        if self.role == 2:
            made = generate() if key is None else key
            n = made.public.n
            channel.send(_KEY, _Key(n.to_bytes((made.public.bits + 7) // 8, "little")))
            return made
        public = PublicKey(int.from_bytes(channel.receive(_KEY, _Key).body.n, "little"))
        if public.bits < min(KEY_BITS) and key is None:
            raise InputError(f"the other owner's key has {public.bits} bits, too few to protect.")
        return public

    def _own_rows(self, channel: Channel, other: str) -> _Sent:
        """Arrange, charge and split this owner's rows; the other's share is sent."""
        values, outline = self._values, None
        if isinstance(self._form, Arranges):
            extents = self._extents(channel, other)
            values, outline = self._form.arrange(
                values, extents, self._privacy, self._limit, self._check_rows
            )
            if self._form.follows == self.owner:
                told = self._form.extents(outline)
                channel.send(_EXTENTS, _Size(len(values), len(told)), [told])
        secret = secrets.token_bytes(SEED_BYTES)
        share = self._form.chunk(values, secret, 0, 1)
        cells = () if outline is None else (outline,)
        channel.send(_OUTLINE, _Size(len(values), sum(map(len, cells))), cells)
        if self.role == 1:
            channel.send(_SEED, _Seed(secret))
            return _Sent(self.owner, share, outline)
        for start in _starts(*share.shape):
            channel.send(_RECORDS, None, [share[start : start + _step(share.shape[1])]])
        return _Sent(self.owner, self._masks(secret, len(values)), outline)

    def _extents(self, channel: Channel, other: str) -> Outline | None:
        """The other's cells, if this owner follows it."""
        follows = self._form.follows if isinstance(self._form, Arranges) else ""
        if follows not in ("", self.owner, other):
            raise InputError(f"the spec's tree_of is {follows!r}, who is neither of the owners.")
        if follows != other:
            return None
        return self._cells(channel.receive(_EXTENTS, _Size))

    def _cells(self, message: Any) -> Outline:
        arrays = message.arrays
        if len(arrays) != 1 or arrays[0].ndim != 2 or arrays[0].dtype != np.uint32:
            raise InputError("the other owner told cells that cannot be.")
        cells: Outline = np.array(arrays[0])
        return cells

    def _their_rows(self, channel: Channel, other: str) -> _Sent:
        """This owner's share of the other's rows, checked as a gateway does."""
        message = channel.receive(_OUTLINE, _Size)
        rows, outline = message.body.rows, None
        part = self._rows_part()
        self._check_rows(rows)
        if isinstance(self._form, Arranges):
            outline = self._cells(message)
            self._form.check_outline(outline, rows)
        elif message.body.cells or message.arrays:
            raise InputError("the other owner told cells, which this spec has not.")
        if self.role == 2:
            seed = channel.receive(_SEED, _Seed).body.seed
            return _Sent(other, self._masks(seed, rows), outline)
        chunks = [np.empty((0, part.columns), np.uint64)]
        for start in _starts(rows, part.columns):
            arrays = channel.receive(_RECORDS).arrays
            if len(arrays) != 1:
                raise InputError("the other owner sent rows that cannot be.")
            part.check(arrays[0], start, rows)
            chunks.append(arrays[0])
        share = np.concatenate(chunks)
        if len(share) != rows:
            raise InputError("the other owner sent fewer rows than it told.")
        return _Sent(other, share, outline)

    def _check_rows(self, rows: int) -> None:
        """Refuse more rows than either end takes in, one's own before anything is charged."""
        most = _MOST_VALUES // self._rows_part().columns
        if rows > most:
            raise InputError(f"an owner has {rows:,} rows; {most:,} are taken at most.")

    def _rows_part(self) -> RowsPart:
        part = self._form.part(1)
        if not isinstance(part, RowsPart):
            raise InputError("a linkage between owners needs rows of shares.")
        return part

    def _masks(self, seed: bytes, rows: int) -> NDArray[np.uint64]:
        part = self._form.part(2)
        if not isinstance(part, SeedPart):
            raise InputError("a linkage between owners needs rows of shares.")
        return part.rows(seed, 0, rows)

    def _sealed(self, link: Link, own: _Sent, theirs: _Sent) -> Sealed:
        """What is compared, in the order of the roles; both must have the same."""
        uploads, outlines = [], {}
        for number, sent in enumerate(self._in_order(own, theirs)):
            name, digest = f"{number:032x}", ""
            if sent.outline is not None:
                outlines[name], digest = sent.outline, outline_digest(sent.outline)
            uploads.append(
                Upload(name, self.spec.name, sent.owner, len(sent.share), True, True, "", digest)
            )
        digest = seal_digest(self.spec.digest, uploads)
        if link.exchange_body(_SEAL, _Seal(digest), _Seal).digest != digest:
            raise InputError("the two owners do not see the same rows; start again at both ends.")
        rows = sum(upload.rows for upload in uploads)
        return Sealed(rows, digest, tuple(uploads), outlines)

    def _in_order(self, own: _Sent, theirs: _Sent) -> tuple[_Sent, _Sent]:
        return (own, theirs) if self.role == 1 else (theirs, own)

    # -------------------------------------------------------------- comparing and opening

    def _compare(
        self, half: LinkageHalf, sealed: Sealed, own: _Sent, theirs: _Sent, progress: Listener
    ) -> LinkagePlan:
        """All steps of the job on this end's half."""
        shards = KIND.shards(self.spec, sealed, 1, [])
        plan = KIND.plan(self.spec, sealed, shards, 1, lambda _: None)
        share = np.concatenate([sent.share for sent in self._in_order(own, theirs)])
        progress(self._event("taking in"))
        for shard in shards:
            half.ingest(shard.name, share[shard.first : shard.first + shard.rows])
        plan.ready = True
        place, rounds = Place(LEAD, tuple(shards), {}), plan.max_iter
        for number in range(1, 2 * MAX_ROWS):
            step = due_step(plan)
            if step is None:
                break
            told = self._teller(step.name, plan.iteration + 1, rounds, sealed.m, progress)
            tasks = step.tasks(plan, place)
            results = [KIND.perform(half, task, told) for task in tasks]
            done = Step(number, step.name, step.iteration(plan))
            step.keep(plan, StepResults(done, {LEAD: tasks}, {LEAD: results}))
        return plan

    def _teller(
        self, phase: str, number: int, rounds: int, rows: int, progress: Listener
    ) -> Callable[[int], None]:
        done = 0

        def told(more: int) -> None:
            nonlocal done
            done += more
            progress(Event(self.spec.name, phase, min(number, rounds), rounds, done, rows))

        told(0)
        return told

    def _event(self, phase: str) -> Event:
        return Event(self.spec.name, phase, 0, 0, 0, 0)

    def _open(self, link: Link, plan: LinkagePlan, sealed: Sealed) -> LinkResult | LinkCount:
        """Hand over halves of the other's outputs, take those of one's own, add up."""
        result = plan.result()
        places = {u.owner: (first, u.rows) for first, u in sealed.places()}
        other = next(name for name in places if name != self.owner)
        values = {n: _opened(link, half, half) for n, half in result.halves.items()}
        rows = {
            name: _opened(link, half.rows(*places[self.owner]), half.rows(*places[other]))
            for name, half in result.row_halves.items()
        }
        return KIND.open_result(self.spec, OpenedResult(result.facts, values, rows))


def _opened(link: Link, own: OutputHalf, others: OutputHalf) -> list[int]:
    """The values of which this end has one half and the other end sends the other."""
    link.send(_HALF, others.data)
    received = link.receive(_HALF, np.uint8, *own.data.shape)
    return open_output(own, OutputHalf(own.modulus, np.array(received)))


def _step(columns: int) -> int:
    """Rows of a chunk."""
    return max(1, _CHUNK_VALUES // columns)


def _starts(rows: int, columns: int) -> range:
    return range(0, rows, _step(columns))
