"""A cloud that compares records under measurement: `python -m ppodc.bench.linkage.process FOLDER`.

Its folder holds its share of both owners' rows and the order: the rule and the blocks. It reports
the cost of taking in and of comparing, and leaves its shares of the match bits to be checked.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.bench.linkage.pairs import BITS, ORDER, Order
from ppodc.bench.process_clock import ProcessClock
from ppodc.linkage.blocks.candidates import BATCH_PAIRS, Block, Work
from ppodc.linkage.compare import matcher as matchers
from ppodc.linkage.compare.comparisons import Comparisons
from ppodc.linkage.compare.distances import NumberMatcher
from ppodc.linkage.compare.field_match import FieldMatcher
from ppodc.linkage.compare.public_lengths import TextMatcher
from ppodc.linkage.compare.secret_lengths import SecretTextMatcher
from ppodc.linkage.job import job_of
from ppodc.linkage.rules import EditDistance, Fields, SquaredDistance
from ppodc.linkage.schedule import LEFT, RIGHT, grouped, shard_name
from ppodc.local.pair_process import LocalCloud, main
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.spec import Spec

_MEMORY_BYTES = 160 << 20  # as in a job
Matcher = Callable[[list[Block]], list[Bits]]


def work(cloud: LocalCloud) -> None:
    """Take in the rows, compare them batch by batch, and report the cost of both."""
    order = msgspec.json.decode((cloud.folder / ORDER).read_bytes(), type=Order)
    share = cloud.share()
    halves = share[: order.first], share[order.first :]
    clock = ProcessClock(cloud)
    session = Session.start(cloud.setting.role, cloud.channel, "linkage bench")
    kinds = {
        "numbers": _numbers, "lengths": _lengths, "secret": _secret, "fields": _fields, "job": _job,
    }  # fmt: skip
    matcher = kinds[order.kind](session, order, *halves)
    clock.tell("taking in")
    work = [Work(0, 1, Block((a, b), tuple(ys))) for a, b, ys in order.blocks]
    found: list[NDArray[np.uint8]] = []
    for batch in grouped(work, BATCH_PAIRS):
        found += [np.packbits(bits) for bits in matcher(matchers.blocks_of(batch))]
    clock.tell("comparing")
    np.save(cloud.folder / BITS, np.concatenate(found))


def _numbers(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    matcher = NumberMatcher(SquaredDistance(tuple(order.weights), order.limit), order.bits)
    return _as_in_jobs(session, matcher, lambda block: Work(0, 1, block), *halves)


def _lengths(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    """Texts in blocks that fix their lengths."""
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
    """Compare rows as a linkage worker does; the last column marks real rows."""
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
    """Return the key that identifies a block."""
    return block[0], block[2][0][0]


def _secret(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    """Strings of secret lengths up to the first of `lengths`, padded."""
    matcher = SecretTextMatcher(EditDistance(1, order.limit), tuple(order.lengths))
    return _as_in_jobs(session, matcher, lambda block: Work(0, 1, block), *halves)


def _fields(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    """Mixed fields; `lengths` of the texts in the order of the rule."""
    matcher = FieldMatcher(Fields.from_dict(order.rule), tuple(order.lengths))
    return _as_in_jobs(session, matcher, lambda block: Work(0, 1, block), *halves)


def _job(session: Session, order: Order, *halves: NDArray[np.uint64]) -> Matcher:
    """Uploads of a linkage with blocks by key, pass by pass."""
    spec = Spec.from_bytes(order.spec.encode())
    job = job_of(spec)
    compared, layout = Comparisons(session, job, spec.schema), job.layout(spec.schema)
    told = dict(zip(map(_start, order.blocks), order.earlier, strict=True))
    for number, (side, half) in enumerate(zip((LEFT, RIGHT), halves, strict=True)):
        compared.take_in(shard_name(number, side), half, layout)

    def match(blocks: list[Block]) -> list[Bits]:
        works = [Work(0, 1, b, earlier=told[b.xs[0], b.ys[0][0]]) for b in blocks]
        batches = compared.matched(works, lambda _: Needs(), 1, lambda _: None)
        return [bits for batch in batches for _, bits in batch]

    return match


if __name__ == "__main__":
    main(work)
