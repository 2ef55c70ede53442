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

from ppodc.errors import StateError
from ppodc.linkage.blocks.candidates import Work, pairs_of
from ppodc.linkage.job import Job, job_of
from ppodc.linkage.tokens import UPLOAD_BITS
from ppodc.records.schema import Schema
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec

LEFT, RIGHT = "x", "y"  # the sides of a comparison, as names of shards end
Round = list[list[Work]]  # a portion for each slot
_DIGEST_BITS = 48
_MOST_MEETINGS = 1 << 31  # pairs of cells that are looked at: a minute or so
_MOST_STRETCHES = 1 << 22  # of rows in all blocks together: some hundred MB
_MOST_PAIRS = 1 << 37  # five days of one worker pair
_LEAST_ROUNDS = 4


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

    @property
    def in_first_pass(self) -> int:
        """Rows without those of later passes."""
        return self.passes[0] if self.passes else self.count


def shard_name(upload: int, side: str) -> str:
    """The name of the shard of an upload on one side of comparisons."""
    return f"{upload}{side}"


def is_side(shard: str) -> bool:
    """Whether a shard is an upload that was taken in for comparisons."""
    return shard.endswith((LEFT, RIGHT))


def owner_names(spec: Spec, sealed: Sealed) -> list[str]:
    """The owners in the order of tokens: as in the spec, or by first upload if it names none."""
    return sealed.owners if spec.owners is None else spec.owners.names


def rows_of(spec: Spec, sealed: Sealed) -> list[Rows]:
    """The rows of every upload; an owner's number is its place in `owner_names`."""
    space, names = job_of(spec).space(spec.schema), owner_names(spec, sealed)
    seen: Counter[str] = Counter()
    found = []
    for first, upload in sealed.places():
        if seen[upload.owner] >> UPLOAD_BITS:
            raise StateError(
                f"a linkage takes {1 << UPLOAD_BITS:,} uploads of an owner, and {upload.owner!r} "
                "has more. Leave some out (`ppodc dataset leave-out`), or give larger ones."
            )
        owner = names.index(upload.owner)
        counts = space.counts(upload.rows, sealed.outlines.get(upload.upload_id))
        passes = space.rows_of_passes(counts)
        found.append(Rows(owner, seen[upload.owner], first, upload.rows, passes))
        seen[upload.owner] += 1
    return found


def sealed_work(spec: Spec, sealed: Sealed, uploads: Sequence[Rows]) -> list[Work]:
    """Every block of pairs among these sealed uploads."""
    outlines = [sealed.outlines.get(upload.upload_id) for upload in sealed.uploads]
    return all_work(job_of(spec), spec.schema, uploads, outlines)


def pairs_compared(spec: Spec, sealed: Sealed) -> int:
    """The number of pairs a job compares, dummies included: both clouds know it, no owner does."""
    return pairs_of(sealed_work(spec, sealed, rows_of(spec, sealed)))


def all_work(
    job: Job,
    schema: Schema,
    uploads: Sequence[Rows],
    outlines: Sequence[NDArray[np.uint32] | None],
    *,
    star: bool = False,
) -> list[Work]:
    """Every block of the job, in order; in a `star` only the owner of number 0 meets others."""
    space, most = job.space(schema), job.rule.batch_pairs
    counts = [
        space.counts(rows.count, outline) for rows, outline in zip(uploads, outlines, strict=True)
    ]
    meeting = [
        (x, y)
        for x, left in enumerate(uploads)
        for y, right in enumerate(uploads)
        if left.owner < right.owner and not (star and left.owner)
    ]
    filled = [int(np.count_nonzero(each.counts)) for each in counts]
    if sum(filled[x] * filled[y] for x, y in meeting) > _MOST_MEETINGS:
        raise _too_much("cells")
    found: list[Work] = []
    stretches = pairs = 0
    for x, y in meeting:
        for work in job.blocking.work((x, counts[x]), (y, counts[y]), space.pruning, most):
            found.append(work)
            stretches += len(work.block.ys)
            pairs += work.block.pairs
            if stretches > _MOST_STRETCHES or pairs > _MOST_PAIRS:
                raise _too_much("pairs")
    return found


def _too_much(what: str) -> StateError:
    return StateError(
        f"these uploads have too many {what} to compare. See how large they are with `ppodc "
        "dataset uploads`, and leave out what an owner should not have sent (`ppodc dataset "
        "leave-out`); or agree on blocks that leave fewer."
    )


def digest(work: Sequence[Work]) -> int:
    """A short digest of a portion, which both clouds compare before they begin it."""
    listed = repr([astuple(each) for each in work])
    found = hashlib.sha256(listed.encode()).digest()
    return int.from_bytes(found[: _DIGEST_BITS // 8], "little")


def rounds(work: Sequence[Work], slots: int, most: int) -> list[Round]:
    """Round by round, what each slot compares: neighbouring blocks, at most `most` pairs, evenly.

    A round has at most as many portions as there are slots. A job has several rounds if it has as
    many blocks: what is done in a round is not lost.
    """
    left, at = pairs_of(work), 0
    most = min(most, -(-left // (slots * _LEAST_ROUNDS)))
    found: list[Round] = []
    while at < len(work):
        each = min(most, -(-left // slots))
        parts: Round = []
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
