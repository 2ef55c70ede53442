"""A cloud that joins rows under measurement: `python -m ppodc.bench.linkage.join_process FOLDER`.

Its folder holds its share of both uploads, their cells and the order. It reports the cost of taking
in, of comparing alone, of comparing and fetching the same pairs, and of making the joined rows, and
leaves its shares of these to be checked.
"""

import msgspec
import numpy as np

from ppodc.bench.linkage.join import JOINED, ORDER, OUTLINE, Order, sealed
from ppodc.bench.process_clock import ProcessClock
from ppodc.kmeans.job import job_of
from ppodc.linkage.blocks.candidates import pairs_of
from ppodc.linkage.compare.comparisons import LEFT, RIGHT, Comparisons, shard_name
from ppodc.linkage.joined.joiner import Joiner
from ppodc.linkage.joined.joining import Joining
from ppodc.local.pair_process import LocalCloud, main
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
    joiner, alone = Joiner(session, columns), Comparisons(session, columns.job, columns.spec.schema)
    shards = {
        shard_name(number, RIGHT if rows.owner else LEFT): share[rows.first :][: rows.count]
        for number, rows in enumerate(join.uploads.rows)
    }
    for shard, own in shards.items():
        alone.take_in(shard, own, columns.layout)
    clock.tell("taking in")
    for _ in alone.matched(join.work, lambda _: Needs(), 1, lambda _: None):
        pass
    clock.tell("comparing")
    alone.close()  # a worker holds the rows once
    for shard, own in shards.items():
        joiner.take_in(shard, own)
    clock.tell("taking in to join")
    found = joiner.link(join.work, join.uploads, 1, lambda _: None)
    clock.tell("comparing and fetching")
    joined = joiner.join(found, join.work, join.uploads)
    clock.tell("joining")
    pairs = pairs_of(join.work)
    np.savez(cloud.folder / JOINED, values=joined.values, keep=joined.keep, pairs=pairs)


if __name__ == "__main__":
    main(work)
