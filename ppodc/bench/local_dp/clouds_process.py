"""A cloud of private k-means under measurement, as a process.

`python -m ppodc.bench.local_dp.clouds_process FOLDER` reads this cloud's share of the records, the
spec and its seeds of noise from the folder. It reports the cost of each part and leaves the opened
values of every iteration in the folder, to be checked.
"""

from contextlib import closing

import msgspec
import numpy as np

from ppodc.bench.local_dp.clouds import OPENED, ORDER, Order
from ppodc.bench.process_clock import ProcessClock
from ppodc.kmeans.private.half import NoisyHalf
from ppodc.kmeans.private.job import plan_of
from ppodc.kmeans.private.noisy_kmeans import Opened, next_centres
from ppodc.local.pair_process import LocalCloud, main
from ppodc.pairs.cloud_side import Material
from ppodc.spec import Spec


def work(cloud: LocalCloud) -> None:
    """Take in the records, then run every iteration with supplies made and timed ahead."""
    order = msgspec.json.decode((cloud.folder / ORDER).read_bytes(), type=Order)
    spec, role = Spec.from_bytes(order.spec), cloud.setting.role
    plan, share = plan_of(spec), cloud.share()
    opened = []
    with closing(NoisyHalf(role, cloud.channel, spec, len(share), Material())) as half:
        clock = ProcessClock(cloud)
        half.ingest("all", share)
        clock.tell("taking in")
        centres = plan.start()
        for iteration in range(1, plan.iterations + 1):
            half.prepare(1)
            clock.tell("supplies")
            parts = [half.assign(["all"], centres, lambda _: None)]
            opened.append(half.open(parts, order.seeds[iteration - 1]))
            clock.tell("iteration")
            centres = next_centres(centres, Opened.of(opened[-1]), plan, iteration)
    np.save(cloud.folder / OPENED, np.stack(opened))


if __name__ == "__main__":
    main(work)
