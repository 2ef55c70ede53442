"""A cloud of private k-means under measurement: `python -m ppodc.bench.ldp.noisy_process FOLDER`.

Its folder holds its share of the records, the spec and this cloud's seeds of noise. It tells what
each part took, and leaves what every iteration opened for whoever checks it.
"""

from contextlib import closing

import msgspec
import numpy as np

from ppodc.bench.ldp.noisy_iteration import OPENED, ORDER, Order
from ppodc.bench.process_clock import ProcessClock
from ppodc.kmeans.noisy.half import NoisyHalf
from ppodc.kmeans.noisy.job import plan_of
from ppodc.kmeans.noisy.own_noise import noise_seed, question
from ppodc.ldp.noisy_kmeans import Opened, next_centres
from ppodc.local.pair_process import LocalCloud, main
from ppodc.pairs.plan import Material
from ppodc.spec import Spec


def work(cloud: LocalCloud) -> None:
    """Take in; then every iteration, its supplies made ahead of it and told apart."""
    order = msgspec.json.decode((cloud.folder / ORDER).read_bytes(), type=Order)
    spec, role = Spec.from_bytes(order.spec), cloud.setting.role
    plan, share = plan_of(spec), cloud.share()
    opened = []
    with closing(NoisyHalf(role, cloud.channel, spec, len(share), Material(cloud.key()))) as half:
        clock = ProcessClock(cloud)
        half.ingest("all", share)
        clock.tell("taking in")
        centres = plan.start()
        for iteration in range(1, plan.iterations + 1):
            half.prepare(1)
            clock.tell("supplies")
            parts = [half.assign(["all"], centres, lambda _: None)]
            seed = noise_seed(order.noise_key, question(iteration, centres))
            opened.append(half.open(parts, seed))
            clock.tell("iteration")
            centres = next_centres(centres, Opened.of(opened[-1]), plan, iteration)
    np.save(cloud.folder / OPENED, np.stack(opened))


if __name__ == "__main__":
    main(work)
