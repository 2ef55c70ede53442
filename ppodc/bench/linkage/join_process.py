"""A cloud that joins rows under measurement: `python -m ppodc.bench.linkage.join_process FOLDER`.

Its folder holds its share of both uploads, their cells and the order. It reports the cost of taking
in, of comparing all pairs, of fetching over their match bits, and of making the joined rows, and
leaves its shares of these to be checked.
"""

import msgspec
import numpy as np

from ppodc.bench.linkage.join import JOINED, ORDER, OUTLINE, Order, sealed
from ppodc.bench.process_clock import ProcessClock
from ppodc.kmeans.job import job_of
from ppodc.linkage.blocks.candidates import Work, pairs_of
from ppodc.linkage.joined.joiner import Joiner
from ppodc.linkage.joined.joining import Joining
from ppodc.linkage.schedule import LEFT, RIGHT, shard_name
from ppodc.local.pair_process import LocalCloud, main
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.spec import Spec


def work(cloud: LocalCloud) -> None:
    """Do the join step by step, and report the cost of each."""
    order = msgspec.json.decode((cloud.folder / ORDER).read_bytes(), type=Order)
    spec = Spec.from_bytes(order.spec.encode())
    outlines = [np.load(cloud.folder / OUTLINE.format(n), allow_pickle=False) for n in (0, 1)]
    columns = job_of(spec).joined(spec.schema)
    assert columns is not None  # noqa: S101 - the spec has a join
    join = Joining(columns, sealed(spec, order.rows, list(outlines)), 1)
    share = cloud.share()
    clock = ProcessClock(cloud)
    session = Session.start(cloud.setting.role, cloud.channel, "join bench")
    joiner = Joiner(session, columns)
    for number, rows in enumerate(join.uploads.rows):
        own = share[rows.first :][: rows.count]
        joiner.take_in(shard_name(number, RIGHT if rows.owner else LEFT), own)
    clock.tell("taking in")
    batches = joiner.compared.matched(join.work, lambda _: Needs(), 1, lambda _: None)
    matched = [[(each, np.packbits(bits)) for each, bits in batch] for batch in batches]
    clock.tell("comparing")
    found = joiner.fetch(map(_unpacked, matched), join.uploads)
    clock.tell("fetching")
    joined = joiner.join(found, join.work, join.uploads)
    clock.tell("joining")
    pairs = pairs_of(join.work)
    np.savez(cloud.folder / JOINED, values=joined.values, keep=joined.keep, pairs=pairs)


def _unpacked(batch: list[tuple[Work, Bits]]) -> list[tuple[Work, Bits]]:
    """The match bits (height, width) of the blocks of a batch."""
    found = []
    for work, packed in batch:
        bits = np.unpackbits(packed, count=work.block.pairs)
        found.append((work, bits.reshape(work.block.height, work.block.width)))
    return found


if __name__ == "__main__":
    main(work)
