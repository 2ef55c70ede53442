"""A cloud's noise for a question, drawn once for ever, and how it is kept from a second one.

A question is an iteration of a job at certain public centres. If its sums S were opened twice with
fresh noise, the mean of both would have less; if two questions were opened with the same noise,
their difference would have none. So a cloud's noise is a function of the question:

    seed = HMAC-SHA256(key of this cloud and job, question),   noise = sampler(AES-256-CTR of seed)

A step that is repeated, on a new worker or after `resume`, opens the very same values, which tells
nobody more. The key is kept in the cloud's store and never leaves it. Before a question is opened
its digest and a commitment to the seed stand in the cloud's ledger, and a second, different one for
the same iteration is refused (`ppodc.pairs.cloud_job`): nobody, be it the other cloud with changed
noise or an operator with a store put back from a copy, gets more openings than the proof counts.
"""

import hashlib
import hmac

import numpy as np

from ppodc.errors import InputError
from ppodc.kmeans.private.noisy_kmeans import Integers

KEY_BYTES = 32


def question(iteration: int, centres: Integers) -> bytes:
    """The digest of what is asked: the same at both clouds."""
    hasher = hashlib.sha256(f"iteration {iteration} at {centres.shape} ".encode())
    hasher.update(np.ascontiguousarray(centres, "<i8").tobytes())
    return hasher.digest()


def noise_seed(key: bytes, asked: bytes) -> bytes:
    """The 32 bytes from which this cloud's noise for the question follows."""
    if len(key) != KEY_BYTES:
        raise InputError("the noise of a job needs this cloud's noise key.")
    return hmac.digest(key, b"noise for " + asked, "sha256")


def commitment(seed: bytes, asked: bytes) -> str:
    """For the ledger: fixes question and noise, tells nothing of the noise."""
    return hashlib.sha256(b"noise " + seed + asked).hexdigest()


def fingerprint(asked: bytes) -> tuple[int, ...]:
    """The digest as public numbers that both ends of a pair compare before they work."""
    return tuple(int.from_bytes(asked[at : at + 6], "big") for at in range(0, 30, 6))
