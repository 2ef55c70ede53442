"""The work of a linkage job: every block of pairs, in an order that both clouds derive alike.

Uploads are taken in sealed order; those of different owners meet, the one of the owner with the
lower number on the left. With blocks, only candidate cells meet (`blocks`). Both clouds work the
list out from the seal, which covers all outlines, and compare a digest of each portion before they
begin it. Portions go to worker pairs; after each round what was found so far is kept.

Owners choose their cells, and may choose bad ones: what the list of blocks may take of a cloud's
memory and time is bounded, and checked before the records are sealed.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.blocking import Cutting
from ppodc.linkage.blocks import BATCH_PAIRS, Block, blocks, cell_blocks
from ppodc.linkage.cells import Synopsis, whole
from ppodc.linkage.job import Job, job_of
from ppodc.linkage.rules import Dice, EditDistance, Fields
from ppodc.records.schema import Schema
from ppodc.service.upload import Sealed
from ppodc.spec import Spec

_DIGEST_BITS = 48
_MOST_MEETINGS = 1 << 31  # pairs of cells that are looked at: a minute or so
_MOST_STRETCHES = 1 << 22  # of rows in all blocks together: some hundred MB
_MOST_PAIRS = 1 << 37  # five days of one worker pair
_LEAST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Work:
    """A block of the rows of two uploads; the lengths of its texts where cells fix them.

    `earlier` says how many passes there were before the one that it belongs to.
    """

    x: int
    y: int
    block: Block
    x_lengths: tuple[int, ...] = ()
    y_lengths: tuple[int, ...] = ()
    earlier: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """One upload's rows among all sealed ones; `number` counts the uploads of its owner.

    With several keys `passes` says how many of the rows belong to each.
    """

    owner: int
    number: int
    first: int
    count: int
    passes: tuple[int, ...] = ()


def owner_names(spec: Spec, sealed: Sealed) -> list[str]:
    """Who takes part, as tokens count them: as in the spec, or by first upload if it names none."""
    return sealed.owners if spec.owners is None else spec.owners.names


def rows_of(spec: Spec, sealed: Sealed) -> list[Rows]:
    """Where the rows of every upload are; an owner's number is its place in `owner_names`."""
    job, names = job_of(spec), owner_names(spec, sealed)
    seen: Counter[str] = Counter()
    found = []
    for first, upload in sealed.places():
        owner, passes = names.index(upload.owner), tuple[int, ...]()
        if job.blocking.passes > 1:
            cutting = job.cutting(spec.schema)
            told = _synopsis(job, cutting, upload.rows, sealed.outlines.get(upload.upload_id))
            passes = cutting.rows_of_passes(told)
        found.append(Rows(owner, seen[upload.owner], first, upload.rows, passes))
        seen[upload.owner] += 1
    return found


def batch_pairs(job: Job) -> int:
    """Pairs that are compared at a time: what fits in memory."""
    return (1 << 24) // job.rule.bits if isinstance(job.rule, Dice) else BATCH_PAIRS


def portion_pairs(job: Job) -> int:
    """Pairs of one worker between two checkpoints: about a minute's work."""
    if isinstance(job.rule, Fields):
        return 1 << 18
    return 1 << 20 if isinstance(job.rule, EditDistance | Dice) else 1 << 23


def all_work(
    job: Job, schema: Schema, uploads: Sequence[Rows], outlines: Sequence[NDArray[np.uint32] | None]
) -> list[Work]:
    """Every block of the job, in order."""
    cutting = job.cutting(schema)
    told = [
        _synopsis(job, cutting, rows.count, outline)
        for rows, outline in zip(uploads, outlines, strict=True)
    ]
    meeting = [
        (x, y)
        for x, left in enumerate(uploads)
        for y, right in enumerate(uploads)
        if left.owner < right.owner
    ]
    filled = [int(np.count_nonzero(synopsis.counts)) for synopsis in told]
    if sum(filled[x] * filled[y] for x, y in meeting) > _MOST_MEETINGS:
        raise _too_much("cells")
    found: list[Work] = []
    stretches = pairs = 0
    for x, y in meeting:
        for work in _between(job, cutting, (x, told[x]), (y, told[y])):
            found.append(work)
            stretches += len(work.block.ys)
            pairs += work.block.pairs
            if stretches > _MOST_STRETCHES or pairs > _MOST_PAIRS:
                raise _too_much("pairs")
    return found


def _too_much(what: str) -> InputError:
    return InputError(
        f"these uploads have too many {what} to compare. See how large they are with `ppodc "
        "dataset uploads`, and leave out what an owner should not have sent (`ppodc dataset "
        "leave-out`); or agree on blocks that leave fewer."
    )


def _synopsis(
    job: Job, cutting: Cutting, rows: int, outline: NDArray[np.uint32] | None
) -> Synopsis:
    if not job.blocking.padded:
        return whole(rows, np.array([[0, 1]])).synopsis
    if outline is None:
        raise InputError("an upload came without its cells.")
    return cutting.synopsis(outline)


def _between(
    job: Job, cutting: Cutting, first: tuple[int, Synopsis], second: tuple[int, Synopsis]
) -> Iterator[Work]:
    (x, left), (y, right) = first, second
    most = batch_pairs(job)
    if job.blocking.kind == "key":
        for cell, _, block in cell_blocks(left, right, cutting.pruning, most):
            yield Work(x, y, block, earlier=_low(left, cell)[0])
    elif job.blocking.kind == "length":
        for a, b, block in cell_blocks(left, right, cutting.pruning, most):
            yield Work(x, y, block, _low(left, a), _low(right, b))
    else:
        for block in blocks(left, right, cutting.pruning, most):
            yield Work(x, y, block)


def _low(synopsis: Synopsis, cell: int) -> tuple[int, ...]:
    """The lengths that a cell fixes, or its pass and key."""
    return tuple(synopsis.boxes[cell, :, 0].tolist())


def pairs_of(work: Sequence[Work]) -> int:
    return sum(each.block.pairs for each in work)


def digest(work: Sequence[Work]) -> int:
    """A short digest of a portion, which both clouds compare before they begin it."""
    listed = repr([astuple(each) for each in work])
    found = hashlib.sha256(listed.encode()).digest()
    return int.from_bytes(found[: _DIGEST_BITS // 8], "little")


def rounds(work: Sequence[Work], slots: int, most: int) -> list[list[list[Work]]]:
    """Round by round, what each slot compares: neighbouring blocks, at most `most` pairs, evenly.

    A round has at most as many portions as there are slots. A job has several rounds if it has as
    many blocks: what is done in a round is not lost.
    """
    left, at = pairs_of(work), 0
    most = min(most, -(-left // (slots * _LEAST_ROUNDS)))
    found: list[list[list[Work]]] = []
    while at < len(work):
        each = min(most, -(-left // slots))
        parts: list[list[Work]] = []
        while at < len(work) and len(parts) < slots:
            end, pairs = at + 1, work[at].block.pairs
            while end < len(work) and pairs + work[end].block.pairs <= each:
                pairs += work[end].block.pairs
                end += 1
            parts.append(list(work[at:end]))
            left, at = left - pairs, end
        found.append(parts)
    return found


def _of(work: Work) -> tuple[int, int, int]:
    return work.x, work.y, work.earlier


def grouped(work: Sequence[Work], most: int) -> Iterator[list[Work]]:
    """Neighbouring blocks of the same two uploads and pass, at most `most` pairs at a time."""
    batch: list[Work] = []
    pairs = 0
    for each in work:
        other = batch and _of(batch[0]) != _of(each)
        if batch and (other or pairs + each.block.pairs > most):
            yield batch
            batch, pairs = [], 0
        batch.append(each)
        pairs += each.block.pairs
    if batch:
        yield batch
