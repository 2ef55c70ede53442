"""Randomisers made ahead: as many as a job takes, kept over restarts, none of them used twice."""

import subprocess
import sys
from pathlib import Path
from typing import TextIO

import numpy as np
import pytest

from ppodc.crypto import paillier_keys
from ppodc.crypto.paillier import SecretKey, generate_insecure
from ppodc.crypto.randomisers import PooledRandomisers
from ppodc.kmeans.half import Half
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.suites import open_half
from ppodc.pairs.cloud_side import Material
from ppodc.records.sharing import mask, split
from ppodc.transport.channel import Channel
from tests.harness.together import together
from tests.kmeans.suite_jobs import Job, check, run_half

RECORDS = np.random.default_rng(4).integers(0, 101, (21, 2))
JOB = Job(RECORDS, 3, 100, max_iter=2)


def pool_of(half: Half) -> PooledRandomisers:
    source = (half.c1 if hasattr(half, "c1") else half.c2).cipher.randomisers
    assert isinstance(source, PooledRandomisers)
    return source


def opened(role: int, channel: Channel, secret: SecretKey, pools: Path) -> Half:
    key = secret if role == 2 else secret.public
    material = Material(key, pools / f"cloud{role}")
    return open_half("paillier", role, channel, JOB.params, material)


def test_what_is_prepared_is_enough_for_taking_in_and_iterating(tmp_path):
    secret = generate_insecure(256)
    share, seed = split(RECORDS)
    shares = {1: share, 2: mask(seed, 0, *RECORDS.shape)}

    def run(role, channel):
        half = opened(role, channel, secret, tmp_path)
        total = half.to_prepare(2)
        portions = []
        half.prepare(2, portions.append)
        assert sum(portions) == total == pool_of(half).available
        assert half.to_prepare(2) == 0
        assert len(run_half(channel, half, JOB, shares[role])) == 2
        return pool_of(half).late

    late = together(lambda channel: run(1, channel), lambda channel: run(2, channel))
    assert late == (0, 0)


def test_a_folder_serves_the_next_worker_and_only_what_is_missing_is_made(tmp_path):
    secret = generate_insecure(256)

    def prepared(role, channel, iterations):
        half = opened(role, channel, secret, tmp_path)
        missing = half.to_prepare(iterations, [10, 11])
        half.prepare(iterations, rows=[10, 11])
        available = pool_of(half).available
        half.close()
        return missing, available

    def pair(iterations):
        return together(lambda c: prepared(1, c, iterations), lambda c: prepared(2, c, iterations))

    for first, again, more in zip(pair(1), pair(1), pair(2), strict=True):
        assert first[0] == first[1] > 0
        assert again == (0, first[1])
        assert more[0] == more[1] - first[1] > 0


def test_without_a_folder_nothing_is_made_ahead():
    secret = generate_insecure(256)

    def half(role, key):
        return lambda channel: open_half("paillier", role, channel, JOB.params, Material(key))

    for made in together(half(1, secret.public), half(2, secret)):
        assert made.to_prepare(5) == 0
        made.prepare(5)


# ------------------------------------------------------------------------ kill -9


def watched(half: Half, log: TextIO, *, say: bool) -> Half:
    """Every randomiser is written down before it is used."""
    pool = pool_of(half)
    take = pool.take

    def taking(count):
        values = take(count)
        log.write("".join(f"{value:x}\n" for value in values))
        log.flush()
        if say:
            sys.stdout.write("taken\n")
            sys.stdout.flush()
        return values

    pool.take = taking
    return half


def run_watched(folder: Path, name: str, *, say: bool = False) -> None:
    """The whole job from the pools of `folder`, checked against the reference."""
    secret = paillier_keys.load_secret(folder / "key", allow_insecure=True)

    def make(role: int, channel: Channel, _: Parameters) -> Half:
        half = opened(role, channel, secret, folder)
        half.prepare(1)
        log = (folder / f"{name}-{role}.txt").open("w")
        return watched(half, log, say=say and role == 1)

    check(make, JOB)


@pytest.mark.parametrize("takes", [1, 25])
def test_after_kill_9_the_rest_of_the_pools_is_used_and_nothing_twice(tmp_path, takes):
    paillier_keys.save_secret(tmp_path / "key", generate_insecure(256))
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.kmeans.paillier.test_prepare import run_watched\n"
        "run_watched(Path(sys.argv[1]), 'killed', say=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(takes):
            assert process.stdout.readline() == "taken\n"
        process.kill()
    run_watched(tmp_path, "resumed")
    for role in (1, 2):
        killed, resumed = (
            (tmp_path / f"{name}-{role}.txt").read_text().splitlines()
            for name in ("killed", "resumed")
        )
        assert resumed
        assert len(set(resumed)) == len(resumed)
        assert not set(killed) & set(resumed)
    assert (tmp_path / "killed-1.txt").read_text(), "the first run took some"
