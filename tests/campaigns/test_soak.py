"""A soak: the jobs it draws, how it judges growth, and one job on real services and Ray."""

import mmap
import os
import random
import secrets
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ppodc.linkage import rules
from ppodc.linkage.blocks.key_blocks import by_key
from ppodc.linkage.job import Job
from ppodc.linkage.outputs import Count
from ppodc.linkage.result import LinkCount
from ppodc.spec import Spec
from tests.campaigns import soak, soak_fire, soak_jobs
from tests.campaigns.plaintext_results import same_links
from tests.campaigns.processes import (
    listening_ports,
    marked,
    orphaned_shared_memory,
    shared_bytes,
)
from tests.campaigns.soak_fire import Shot, draw_shots
from tests.campaigns.soak_leaks import Footprint, Held, _held, growth

SEED = 9177  # totals of joined columns


def test_one_job_under_fire_is_exact_and_nothing_is_left(monkeypatch):
    upload = Shot(moment=0, target="owner's upload", action="kill -9", which=0, pause=0)
    monkeypatch.setattr(soak, "draw_shots", lambda *_, **__: [upload])
    monkeypatch.setattr(soak_fire, "_LOOK_SECONDS", 0.01)  # not even a quick upload is missed
    document = soak.run(0.001, SEED)
    (only,) = document["rounds"]
    assert (only["problem"], only["strays"], only["unready"]) == ("", [], [])
    assert (document["jobs"], document["exact"], document["ledgers_hold"]) == (1, 1, 1)
    assert set(document["left_at_the_end"].values()) == {0}
    assert only["family"] == "totals, joined columns"
    assert (only["hits"], only["uploads_again"]) == ({"kill -9: owner's upload": 1}, 1)
    (held,) = document["footprints"]
    assert set(held["services"]) == {"cloud1", "cloud2", "collector"}
    for service in held["services"].values():
        assert service["files"] > service["sockets"] > 0
    assert held["ports"] >= 7
    assert held["strays"] == held["pools"] == 0
    assert not soak._is_wrong(document)


# ------------------------------------------------------------------- what is drawn


def test_every_family_comes_once_in_a_deck():
    drawn = [soak_jobs.draw(1, number) for number in range(2 * len(soak_jobs.FAMILIES))]
    decks = [drawn[: len(soak_jobs.FAMILIES)], drawn[len(soak_jobs.FAMILIES) :]]
    for deck in decks:
        assert {job.family for job in deck} == set(soak_jobs.FAMILIES)
    assert [job.family for job in decks[0]] != [job.family for job in decks[1]]
    assert drawn == [soak_jobs.draw(1, number) for number in range(len(drawn))]


def test_every_form_of_every_kind_is_drawn():
    drawn = [soak_jobs.draw(2, number) for number in range(40 * len(soak_jobs.FAMILIES))]
    for job in drawn:
        assert Spec.loads(job.spec.to_toml()) == job.spec
    jobs = [job.spec.job for job in drawn]
    linkages = [job for job in jobs if job.kind == "linkage"]
    assert {job.rule.name for job in linkages} == {"sse", "edit", "fields", "dice"}
    blocks = {"none", "adtree", "adtree-shared", "length", "embedding", "key"}
    assert {job.blocking.kind for job in linkages} == blocks
    assert {len(job.blocking.named_columns) for job in linkages} == {0, 1, 2}
    assert {job.output.name for job in linkages} == {"links", "flags", "count"}
    local = {job.mechanism for job in jobs if job.kind == "local"}
    assert local == {"codebook", "privbv", "ldpseg", "joint", "ldpk-modes"}
    kmeans = [job for job in jobs if job.kind == "kmeans"]
    assert {job.init for job in kmeans} > {"random", "k-means++"}
    assert {bool(job.ks) for job in kmeans} == {job.dedup is None for job in kmeans}
    assert {job.n_init for job in kmeans} == {1, 2, 3}
    assert {job.suite for job in drawn} == {"shares", "paillier"}
    assert {job.kind for job in jobs} >= {"private-kmeans", "totals"}


def test_services_are_killed_only_when_asked_for():
    def actions(kill_services):
        chances = [random.Random(n) for n in range(300)]
        shots = [draw_shots(chance, kill_services=kill_services, local=False) for chance in chances]
        return {(s.target.startswith("service"), s.action) for drawn in shots for s in drawn}

    stopped = {(True, "stopped for a while")}
    assert {each for each in actions(False) if each[0]} == stopped
    assert actions(True) - actions(False) == {(True, "kill -9")}
    assert {action for _, action in actions(True)} == {"kill -9", "stopped for a while", "Ctrl-C"}


def test_pairs_that_no_key_brings_together_do_not_count():
    rule = rules.fields([rules.exact("a"), rules.numeric("b", max=9)], threshold=1)
    tables = [[(1, 0), (5, 1), (None, 2)], [(1, 0), (5, None), (None, 2)]]
    cost = {"epsilon": 1, "delta": "1/100"}
    every, one = Job(rule, Count()), Job(rule, Count(), by_key("a", **cost))
    both = Job(rule, Count(), by_key("a", "b", **cost))
    for job, links in ((every, 7), (one, 2), (both, 3)):
        assert same_links(tables, job, [LinkCount(links)])
        assert not same_links(tables, job, [LinkCount(links), LinkCount(links + 1)])


# ------------------------------------------------------------------- what is held


def footprints(jobs=60, memory=0, files=0, strays=0):
    """The service is killed after ten jobs; afterwards it may grow by so much in each job."""
    found = []
    for job in range(jobs):
        noise = (job * 7919) % 5
        more = max(0, job - 10)
        held = Held(1 if job < 10 else 2, 10**8 + memory * more + noise * 10**5, 40 + files * more,
                    9 + noise % 2, 12)  # fmt: skip
        found.append(Footprint({"cloud1": held}, 12, strays * more, 19, 0, 1, 0, 20 + noise % 3))
    return found


def leaking(found):
    return [each.what for each in growth(found) if each.leaks]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({}, []),
        ({"memory": 10_000}, []),
        ({"memory": 200_000}, ["cloud1: memory"]),
        ({"files": 1}, ["cloud1: files"]),
        ({"strays": 1}, ["all: strays"]),
    ],
)
def test_growth_is_judged_over_the_longest_life(more, named):
    assert leaking(footprints(**more)) == named
    assert {each.jobs for each in growth(footprints())} == {50, 60}
    assert leaking(footprints(jobs=15, files=9)) == [], "too few jobs to tell"


def test_marked_processes_are_found_whoever_their_parent_is():
    mark = {"PPODC_TEST_MARK": secrets.token_hex(8)}
    process = subprocess.Popen(
        [sys.executable, "-c", "input('runs')"],
        env={**os.environ, **mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout.read(4) == b"runs"
        assert [found.pid for found in marked(mark)] == [process.pid]
        held = _held(process.pid)
        assert held.threads == 1
        assert held.files >= 3
        assert held.memory > 1 << 20
    finally:
        process.communicate(b"\n")
    assert marked(mark) == []
    assert _held(process.pid).memory == 0


def test_listening_ports_are_counted():
    own = [psutil.Process()]
    before = listening_ports(own)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket():
        assert listening_ports(own) == before + 1
        assert server.getsockname()[1]
    assert listening_ports(own) == before


def test_shared_memory_that_no_process_maps_is_found():
    folder = Path("/dev/shm")  # noqa: S108 - what this is about
    path = folder / f"ppodc-test-{secrets.token_hex(8)}"
    path.write_bytes(bytes(4096))
    try:
        assert str(path) in orphaned_shared_memory()
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
            mapped[0] = 1
            assert str(path) not in orphaned_shared_memory()
            assert shared_bytes(psutil.Process()) >= 4096
    finally:
        path.unlink()
    assert str(path) not in orphaned_shared_memory()
