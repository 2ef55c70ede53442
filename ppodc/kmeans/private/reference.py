"""Private k-means on plaintext, with the noise that two clouds drew: what a job must equal."""

from collections.abc import Sequence

from ppodc.crypto.random_stream import SecureRandom
from ppodc.kmeans.private.job import plan_of
from ppodc.kmeans.private.noisy_kmeans import Integers, NoisyResult, noisy_kmeans, own_noise
from ppodc.spec import Spec


def reference(spec: Spec, records: Integers, seeds: Sequence[Sequence[bytes]]) -> NoisyResult:
    """From encoded records (m, l) and each cloud's seed of every iteration's noise."""
    plan = plan_of(spec)

    def noise(iteration: int, _centres: Integers) -> Integers:
        first, second = (own_noise(plan, SecureRandom(drawn[iteration - 1])) for drawn in seeds)
        return first + second

    return noisy_kmeans(records, plan, noise)
