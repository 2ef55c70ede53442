"""Private k-means on plaintext, with the noise of two clouds' keys: what a job must equal."""

from collections.abc import Sequence

from ppodc.crypto.random_stream import SecureRandom
from ppodc.kmeans.private.job import plan_of
from ppodc.kmeans.private.noisy_kmeans import Integers, NoisyResult, noisy_kmeans, own_noise
from ppodc.kmeans.private.own_noise import noise_seed, question
from ppodc.spec import Spec


def reference(spec: Spec, records: Integers, keys: Sequence[bytes]) -> NoisyResult:
    """From encoded records (m, l) and each cloud's noise key of the job."""
    plan = plan_of(spec)

    def noise(iteration: int, centres: Integers) -> Integers:
        asked = question(iteration, centres)
        first, second = (own_noise(plan, SecureRandom(noise_seed(key, asked))) for key in keys)
        return first + second

    return noisy_kmeans(records, plan, noise)
