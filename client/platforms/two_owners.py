"""Two owners link their records between themselves: each is a party of the engine, no cloud is.

The same spec, encoding, blocks and protocols as a job on two clouds, with owner 1 in the place of
C1 and owner 2 in that of C2: each splits its rows in two shares, keeps one and gives the other
owner the other one. At the end each hands over its halves of the other's results.

1. Both compare release and digest of the spec (facts of the hello), then exchange names.
2. Shares and, with blocks, cells with padded counts are exchanged; both compare the seal.
3. The steps of a linkage job (`plan`), one pair.
4. Halves of results are exchanged, and each opens its own.

Who learns what: an owner learns what the spec says of its own rows (links, flags or the number of
links), and the number of the other's rows; with blocks, instead of it, the other's cells and padded
counts, which is (epsilon, delta) differential privacy for records that match nothing. Both must
follow the protocol. Whoever is last to hand over halves may stop and leave the other without a
result.

Rounds and bytes: those of the job; besides, owner 2 sends its rows once, 8 bytes a number.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError, PpodcError, ProtocolError, SpecError, TableError
from ppodc.linkage.job import job_of
from ppodc.linkage.kind import KIND
from ppodc.linkage.owner import owner_side
from ppodc.linkage.result import LinkCount, LinkResult
from ppodc.mpc.messages import PeerLink
from ppodc.names import Name
from ppodc.pairs.cloud_side import Material
from ppodc.pairs.progress import Event, Listener, ignore
from ppodc.pairs.shards import cut
from ppodc.pairs.walk import Walk, Walker, opened_half
from ppodc.records.prepared_upload import prepare
from ppodc.records.result_shares import OutputShare, ResultShare, open_shares
from ppodc.records.sharing import SEED_BYTES
from ppodc.records.upload_form import Cloud, RowsPart, SeedPart
from ppodc.service.sealed_uploads import MAX_ROWS, Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Body

Outline = NDArray[np.uint32]
MAX_EPSILON = Fraction(10)
_NAME, _EXTENTS = "pair.name", "pair.extents"
_OUTLINE, _RECORDS, _SEED, _SEAL, _HALF = (
    "pair.outline", "pair.records", "pair.seed", "pair.seal", "pair.half",
)  # fmt: skip
_CHUNK_VALUES = 1 << 19
_MOST_VALUES = 1 << 28  # numbers of the other's rows that are taken in: 2 GB of shares
_MAX_CELLS = 1 << 14
_MOST_FACTS, _FACT_TEXT = 48, 100  # parts of the spec in the hello, and the signs of one
_Digest = Annotated[str, msgspec.Meta(min_length=64, max_length=64)]


class _Named(Body, frozen=True):
    """An owner's name."""

    owner: Name


class _Size(Body, frozen=True):
    """The size of the next message: rows to compare, and cells (0: the blocks have none)."""

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


def _short(value: Any) -> str:
    """A part of a spec, as both ends name it where they differ; a long one by its digest."""
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= _FACT_TEXT else hashlib.sha256(text.encode()).hexdigest()[:16]


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
            raise SpecError(f"the spec names other owners: {', '.join(spec.owners.names)}.")
        self.spec, self.role, self.owner = spec, role, owner
        self._side, self._form = owner_side(spec), spec.form
        self._values = self._side.encode(data, header=header)
        self._privacy, self._limit = privacy, max_epsilon

    @property
    def facts(self) -> dict[str, str]:
        """The facts that both ends must agree on, for the hello."""
        document = self.spec.to_dict()
        parts = {**document["job"], "schema": document["schema"]}
        told = {f"spec {key}": _short(value) for key, value in sorted(parts.items())}
        facts = {"release": version("ppodc"), "linkage spec": self.spec.digest}
        return facts | dict(list(told.items())[:_MOST_FACTS])

    def run(self, channel: Channel, progress: Listener = ignore) -> LinkResult | LinkCount:
        """Link with the owner at the other end. An error at this end is reported to the other."""
        try:
            return self._run(channel, progress)
        except BaseException as error:
            stopped = "the other owner stopped it."
            channel.fail(str(error) if isinstance(error, PpodcError) else stopped)
            raise

    def _run(self, channel: Channel, progress: Listener) -> LinkResult | LinkCount:
        link = PeerLink(channel)
        other = link.exchange_body(_NAME, _Named(self.owner), _Named).owner
        if other == self.owner:
            raise SpecError(f"both owners are called {other!r}; one must take another name.")
        if self.spec.owners is not None and other not in self.spec.owners.names:
            raise SpecError(f"the other owner calls itself {other!r}, whom the spec does not name")
        progress(self._event("exchanging shares"))
        own = self._own_rows(channel, other)
        try:
            theirs = self._their_rows(channel, other)
        except InputError as error:  # from a check of what was received
            raise ProtocolError(
                f"the other owner sent rows that do not fit the spec: {error}"
            ) from error
        sealed = self._sealed(link, own, theirs)
        share = np.concatenate([sent.share for sent in self._in_order(own, theirs)])
        with opened_half(self.spec, KIND.suite(), self.role, channel, sealed.m, Material()) as half:
            walker = Walker(Walk(self.spec, sealed), [half], partial(cut, share), progress)
            return self._open(link, walker.run(), sealed)

    # ------------------------------------------------------------------ before comparing

    def _own_rows(self, channel: Channel, other: str) -> _Sent:
        """Arrange, charge and split this owner's rows; the other's share is sent."""
        upload = prepare(
            self._side,
            self._values,
            self._privacy,
            self._limit,
            extents=self._extents(channel, other),
            may_send=self._check_rows,
        )
        rows, outline = len(upload.values), upload.outline
        if outline is not None and self._form.follows == self.owner:
            extents = self._form.extents(outline)
            channel.send(_EXTENTS, _Size(rows, len(extents)), [extents])
        cells = () if outline is None else (outline,)
        channel.send(_OUTLINE, _Size(rows, sum(map(len, cells))), cells)
        if self.role == 1:
            channel.send(_SEED, _Seed(upload.secret))
        else:
            for start, stop in _pieces(rows, self._rows_part().columns):
                channel.send(_RECORDS, None, [upload.share(1, start, stop)])
        return _Sent(self.owner, upload.share(self.role), outline)

    def _extents(self, channel: Channel, other: str) -> Outline | None:
        """The other's cells, if this owner follows it."""
        follows = self._form.follows
        if follows not in ("", self.owner, other):
            raise SpecError(f"the spec's tree_of is {follows!r}, who is neither of the owners.")
        if follows != other:
            return None
        return self._cells(channel.receive(_EXTENTS, _Size))

    def _cells(self, message: Any) -> Outline:
        arrays = message.arrays
        if len(arrays) != 1 or arrays[0].ndim != 2 or arrays[0].dtype != np.uint32:
            raise ProtocolError("the other owner sent malformed cells.")
        cells: Outline = np.array(arrays[0])
        return cells

    def _their_rows(self, channel: Channel, other: str) -> _Sent:
        """This owner's share of the other's rows, checked as a gateway does."""
        message = channel.receive(_OUTLINE, _Size)
        rows, outline = message.body.rows, None
        part = self._rows_part()
        self._check_rows(rows)
        if self._form.has_cells:
            outline = self._cells(message)
            self._form.check_outline(outline, rows)
        elif message.body.cells or message.arrays:
            raise ProtocolError("the other owner sent cells, but this spec uses no blocks.")
        if self.role == 2:
            seed = channel.receive(_SEED, _Seed).body.seed
            return _Sent(other, self._masks(seed, rows), outline)
        chunks = [np.empty((0, part.columns), np.uint64)]
        for start, _ in _pieces(rows, part.columns):
            arrays = channel.receive(_RECORDS).arrays
            if len(arrays) != 1:
                raise ProtocolError("the other owner sent malformed rows.")
            part.check(arrays[0], start, rows)
            chunks.append(arrays[0])
        share = np.concatenate(chunks)
        if len(share) != rows:
            raise ProtocolError("the other owner sent fewer rows than it announced.")
        return _Sent(other, share, outline)

    def _check_rows(self, rows: int) -> None:
        """Refuse more rows than either end takes in, one's own before anything is charged."""
        most = _MOST_VALUES // self._rows_part().columns
        if rows > most:
            raise TableError(f"an owner has {rows:,} rows; {most:,} are taken at most.")

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

    def _sealed(self, link: PeerLink, own: _Sent, theirs: _Sent) -> Sealed:
        """The uploads to compare, in the order of the roles; both ends must have the same."""
        both = self._in_order(own, theirs)
        sealed = Sealed.of(self.spec, [(s.owner, len(s.share), s.outline) for s in both])
        if link.exchange_body(_SEAL, _Seal(sealed.digest), _Seal).digest != sealed.digest:
            raise ProtocolError("the two owners see different rows. Start again at both ends.")
        return sealed

    def _in_order(self, own: _Sent, theirs: _Sent) -> tuple[_Sent, _Sent]:
        return (own, theirs) if self.role == 1 else (theirs, own)

    # --------------------------------------------------------------------------- opening

    def _event(self, phase: str) -> Event:
        return Event(self.spec.name, phase, 0, 0, 0, 0)

    def _open(self, link: PeerLink, result: ResultShare, sealed: Sealed) -> LinkResult | LinkCount:
        """Hand over halves of the other's outputs, take those of one's own, add up."""
        own = result.for_owner(self.owner, sealed.places_of(self.owner))
        other = next(name for name in sealed.owners if name != self.owner)
        others = result.for_owner(other, sealed.places_of(other))
        values = _exchanged(link, own.halves, others.halves)
        rows = _exchanged(link, own.row_halves, others.row_halves)
        theirs = ResultShare(result.facts, values, rows)
        return self._side.open_result(open_shares(own, theirs))


def _exchanged(
    link: PeerLink, own: Mapping[str, OutputShare], others: Mapping[str, OutputShare]
) -> dict[str, OutputShare]:
    """The other end's halves of this end's outputs, for this end's halves of the other's."""
    received = {}
    for name, half in own.items():
        link.send(_HALF, others[name].data)
        data = np.array(link.receive(_HALF, np.uint8, *half.data.shape))
        received[name] = OutputShare(half.modulus, data)
    return received


def _pieces(rows: int, columns: int) -> list[tuple[int, int]]:
    """(first row, end) of each message with rows."""
    step = max(1, _CHUNK_VALUES // columns)
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]
