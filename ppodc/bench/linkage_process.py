"""A cloud that compares records under measurement: `python -m ppodc.bench.linkage_process FOLDER`.

Its folder holds its share of both owners' rows and the order: the rule and the blocks. It tells
what taking in and comparing took, and leaves its shares of the match bits for whoever checks them.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.bench.linkage_pairs import BITS, ORDER, Order
from ppodc.bench.process_clock import ProcessClock
from ppodc.errors import InputError
from ppodc.linkage import distances, matchers, rules, string_match
from ppodc.linkage.blocks import Block, batches
from ppodc.linkage.characters import equalities, take_in
from ppodc.linkage.distances import Numbers
from ppodc.linkage.edit_distance import within_secret
from ppodc.linkage.encoding import link_columns
from ppodc.linkage.job import job_of
from ppodc.linkage.matchers import FieldMatcher, TextMatcher
from ppodc.linkage.passes import EXTRA, counted_first, first_needs, take_in_keys
from ppodc.linkage.rules import EditDistance, Fields, SquaredDistance
from ppodc.linkage.string_match import BitRows, LengthBlock, TextRows
from ppodc.linkage.strings import NONE
from ppodc.linkage.work import Work, batch_pairs, grouped, pairs_of
from ppodc.local.pair_process import LocalCloud, main
from ppodc.mpc import circuits, unmask
from ppodc.mpc.additive import AdditiveShare
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.xor_bits import XorShare
from ppodc.spec import Spec

_MEMORY_BYTES = 160 << 20  # as in a job
Matcher = Callable[[list[Block]], list[Bits]]


def work(cloud: LocalCloud) -> None:
    """Take in, compare batch by batch, tell the costs of both."""
    order = msgspec.json.decode((cloud.folder / ORDER).read_bytes(), type=Order)
    share = cloud.share()
    halves = share[: order.first], share[order.first :]
    clock = ProcessClock(cloud)
    session = Session.start(cloud.setting.role, cloud.channel, "linkage bench", cloud.key())
    kinds = {
        "numbers": _numbers, "edit": _edit, "lengths": _lengths, "secret": _secret,
        "fields": _fields, "job": _job,
    }  # fmt: skip
    matcher = kinds[order.kind](session, order, *halves)
    clock.tell("taking in")
    blocks = [Block((a, b), tuple(ys)) for a, b, ys in order.blocks]
    found: list[NDArray[np.uint8]] = []
    for batch in batches(iter(blocks)):
        found += [np.packbits(bits) for bits in matcher(batch)]
    clock.tell("comparing")
    np.save(cloud.folder / BITS, np.concatenate(found))


def _real(session: Session, share: NDArray[np.uint64]) -> AdditiveShare:
    """Additive shares of the bits in the last column."""
    column = np.ascontiguousarray(share[:, -1:])
    table = unmask.unmask(session, column, 1, Budget(_MEMORY_BYTES))
    return table.additive(0, table.rows).reshape(-1)


def _numbers(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    numbers = Numbers(SquaredDistance(tuple(order.weights), order.limit), order.bits)
    x, y = (
        distances.take_in(
            session,
            numbers,
            np.ascontiguousarray(half[:, :-1]),
            _real(session, half),
            Budget(_MEMORY_BYTES),
        )
        for half in halves
    )
    return lambda batch: distances.match_bits(session, numbers, x, y, batch)


def _edit(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    """Strings of public lengths, all the same for each owner."""
    x, y = (
        _texts(session, half[:, :length], first=not number)
        for number, (half, length) in enumerate(zip(halves, order.lengths, strict=True))
    )
    rule = EditDistance(1, order.limit)
    first, second = order.lengths

    def match(batch: list[Block]) -> list[Bits]:
        entries = [LengthBlock(block, (first,), (second,)) for block in batch]
        return string_match.match_bits(session, rule, x, y, entries)

    return match


def _lengths(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    """Several texts a row in cells that fix their lengths."""
    rule = EditDistance(len(order.lengths), order.limit)
    told = dict(zip(map(_start, order.blocks), order.block_lengths, strict=True))

    def work(block: Block) -> Work:
        x_lengths, y_lengths = told[block.xs[0], block.ys[0][0]]
        return Work(0, 1, block, tuple(x_lengths), tuple(y_lengths))

    return _as_in_jobs(session, TextMatcher(rule, tuple(order.lengths)), work, *halves)


def _as_in_jobs(
    session: Session,
    matcher: matchers.Matcher,
    work: Callable[[Block], Work],
    *halves: NDArray[np.uint64],
) -> Matcher:
    """What a worker of a linkage job does; the last column of both halves says what is real."""
    budget = Budget(_MEMORY_BYTES)
    x, y = (
        matcher.take_in(
            session,
            np.ascontiguousarray(half[:, :-1]),
            np.ascontiguousarray(half[:, -1:]),
            budget,
            first=not number,
        )
        for number, half in enumerate(halves)
    )

    def match(batch: list[Block]) -> list[Bits]:
        works = [work(block) for block in batch]
        session.supplies.reserve(matcher.needs(works))
        return matcher.match(session, x, y, works)

    return match


def _start(block: tuple[int, int, list[tuple[int, int]]]) -> tuple[int, int]:
    """What tells a block from all others."""
    return block[0], block[2][0][0]


def _texts(session: Session, codes: NDArray[np.uint64], *, first: bool) -> TextRows:
    budget = Budget(_MEMORY_BYTES)
    strings = take_in(session, np.ascontiguousarray(codes), budget, first=first)
    ones = np.full((len(codes), 1), session.role == 1, np.uint8)
    return TextRows((strings,), BitRows.of(session, ones, budget, first=first))


def _secret(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    """Strings of secret lengths up to the first of `lengths`, padded."""
    longest, most = order.lengths[0], order.limit
    widths = (longest, longest + most)
    budget = Budget(_MEMORY_BYTES)
    x, y = (
        take_in(session, np.ascontiguousarray(half[:, :width]), budget, first=not number)
        for number, (half, width) in enumerate(zip(halves, widths, strict=True))
    )
    ends = [
        BitRows.of(session, _ends(session, rows.padding(np.arange(rows.rows), NONE), longest),
                   budget, first=not number)
        for number, rows in enumerate((x, y))
    ]  # fmt: skip
    shifts = range(-most, most + 1)

    def circuit(block: Block) -> circuits.Circuit[XorShare]:
        equal = equalities(session, x, y, block, longest, shifts)
        chosen = {s: ends[0].sums(session, ends[1], block, s) for s in shifts}
        return within_secret(session.role, equal, longest, most, chosen)

    def match(batch: list[Block]) -> list[Bits]:
        shares = circuits.run(session, [circuit(block) for block in batch])
        both = zip(batch, shares, strict=True)
        return [string_match.pair_bits(block, share) for block, share in both]

    return match


def _fields(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    """Mixed fields; `lengths` of the texts in the order of the rule."""
    rule = rules.from_dict(order.rule)
    if not isinstance(rule, Fields):
        raise InputError("the order is of fields, its rule is not.")
    matcher = FieldMatcher(rule, tuple(order.lengths))
    return _as_in_jobs(session, matcher, lambda block: Work(0, 1, block), *halves)


def _job(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    """Uploads of a linkage with blocks by key, pass by pass."""
    spec = Spec.from_bytes(order.spec.encode())
    job, budget = job_of(spec), Budget(_MEMORY_BYTES)
    matcher, at = matchers.matcher_of(job, spec.schema), link_columns(job, spec.schema)
    told = dict(zip(map(_start, order.blocks), order.earlier, strict=True))
    sides, keys = [], []
    for number, half in enumerate(halves):
        link, real, _, more = np.split(half, [at, at + 1, at + EXTRA], axis=1)
        parts = np.ascontiguousarray(link), np.ascontiguousarray(real)
        sides.append(matcher.take_in(session, *parts, budget, first=not number))
        if later := job.blocking.passes - 1:
            keys.append(take_in_keys(session, more[:, :later]))

    def match(blocks: list[Block]) -> list[Bits]:
        works = [Work(0, 1, b, earlier=told[b.xs[0], b.ys[0][0]]) for b in blocks]
        found: list[Bits] = []
        for batch in grouped(works, batch_pairs(job)):
            earlier, pairs = batch[0].earlier, pairs_of(batch)
            session.supplies.reserve(matcher.needs(batch) + first_needs(earlier, pairs))
            bits = matcher.match(session, sides[0], sides[1], batch)
            if earlier:
                parts = [work.block for work in batch]
                bits = counted_first(session, keys[0], keys[1], earlier, parts, bits)
            found += bits
        return found

    return match


def _ends(session: Session, padding: Bits, longest: int) -> Bits:
    """Shares of the one-hots of the lengths 0..longest, from those of "no character here"."""
    before = np.zeros((len(padding), 1), np.uint8)
    beyond = np.full((len(padding), 1), session.role == 1, np.uint8)
    steps: Sequence[Bits] = (before, padding[:, :longest], beyond)
    marks = np.concatenate(steps, axis=1)
    return np.ascontiguousarray(marks[:, 1:] ^ marks[:, :-1])


if __name__ == "__main__":
    main(work)
