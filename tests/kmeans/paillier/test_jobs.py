"""Random jobs equal the reference in every iteration, in every mode."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ppodc.crypto.paillier import generate_insecure
from ppodc.crypto.randomisers import FreshRandomisers
from ppodc.crypto.split_paillier import split
from ppodc.errors import InputError, WidthError
from ppodc.kmeans.half import Half
from ppodc.kmeans.paillier.half import Half1, Half2
from ppodc.kmeans.parameters import Parameters
from ppodc.transport import zmq_session
from ppodc.transport.channel import Channel, memory_pair
from ppodc.transport.curve_keys import CurveKeys
from tests.harness.patience import LONG
from tests.kmeans.suite_jobs import Job, check, garbage, random_job

SECRET = generate_insecure(256)
SHARES = split(SECRET)


def make(role: int, channel: Channel, params: Parameters, *, pipelined: bool = True) -> Half:
    if role == 1:
        source = FreshRandomisers(SECRET.public)
        return Half1(channel, params, SECRET.public, source, pipelined=pipelined, batch=5)
    return Half2(channel, params, SECRET, FreshRandomisers(SECRET.public, SECRET))


@pytest.mark.parametrize("case", range(12))
def test_random_jobs_equal_the_reference(case):
    """Of 16 records at most, in batches of five: more take longer and meet nothing new."""
    job = random_job(case)
    check(make, replace(job, records=job.records[:16]))


@pytest.mark.parametrize("case", range(6))
def test_whatever_is_uploaded_counts_as_a_value_up_to_ub(case):
    job, shares = garbage(case)
    check(make, job, shares=shares)


@pytest.mark.parametrize("min_size", [2, 3, 4])
def test_a_threshold_around_the_sizes_of_the_clusters(min_size):
    records = np.repeat([[0], [5], [9]], [2, 3, 0], axis=0)
    check(make, Job(records, 3, 9, centres=np.array([[0], [5], [9]]), min_size=min_size))


def test_one_record_one_cluster():
    check(make, Job(np.array([[5, 9]]), 1, 10))


def test_as_many_clusters_as_records():
    check(make, Job(np.array([[1], [9], [5], [5]]), 4, 10, max_iter=3))


def make_split(role: int, channel: Channel, params: Parameters) -> Half:
    source = FreshRandomisers(SECRET.public)  # neither cloud has p and q to make them faster
    if role == 1:
        return Half1(channel, params, SHARES[0], source, batch=5)
    return Half2(channel, params, SHARES[1], source)


def test_with_a_split_key():
    check(make_split, random_job(1))


def test_a_split_key_at_one_cloud_alone_is_refused():
    def mixed(role: int, channel: Channel, params: Parameters) -> Half:
        return (make if role == 1 else make_split)(role, channel, params)

    with pytest.raises(InputError, match="needs a share at either cloud"):
        check(mixed, random_job(0))


def test_turn_taking_gives_the_same_as_pipelined():
    job = random_job(3)
    check(lambda role, channel, params: make(role, channel, params, pipelined=False), job)


def test_over_an_encrypted_socket():
    keys = [CurveKeys.generate() for _ in range(2)]
    with zmq_session.listen("tcp://127.0.0.1:0", keys[1], [keys[0].public]) as listener:
        with ThreadPoolExecutor() as threads:
            accepted = threads.submit(listener.accept, LONG)
            first = zmq_session.connect(listener.endpoint, keys[0], keys[1].public, timeout=LONG)
            second = accepted.result()
        try:
            check(make, random_job(5), (first, second))
        finally:
            first.close()
            second.close()


def test_a_job_that_does_not_fit_the_key_is_refused_before_anything_is_sent():
    first, _ = memory_pair()
    params = Parameters(10_000, 10, 8, 1000, Fraction(0))
    with pytest.raises(WidthError, match="at most"):
        make(1, first, params)
    assert first.traffic.messages_sent == 0
