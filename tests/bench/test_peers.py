"""SPU beside the shares suite: skipped in words where it is not installed, real where it is."""

import os
import socket
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ppodc.bench.kmeans import peers
from ppodc.bench.network_presets import Link
from ppodc.bench.points import Points
from ppodc.kmeans.reference import kmeans
from tests.bench.look import check_document, check_plot

PYTHON = Path(os.environ.get("PPODC_SPU_PYTHON", sys.executable))
needs_spu = pytest.mark.skipif(
    peers.version(PYTHON) is None,
    reason="no package `spu`; install it apart and name its interpreter in PPODC_SPU_PYTHON",
)


@pytest.fixture
def without_spu(tmp_path):
    """An interpreter that runs and has no packages."""
    file = tmp_path / "python"
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    file.chmod(0o755)
    return file


def test_without_spu_the_reason_is_said(without_spu, tmp_path):
    result = peers.run(40, 2, 2, runs=1, python=without_spu, points=Points())
    assert "SPU was skipped" in check_document(result, "peers")
    (own,) = result["points"]
    assert own["system"] == "ppodc shares"
    assert own["error"] == 0
    peers.draw(result, tmp_path / "plot.png")
    check_plot(tmp_path / "plot.png")


def test_an_interpreter_that_is_not_there_has_no_spu(tmp_path):
    assert peers.version(tmp_path / "nothing") is None


def test_the_largest_error_is_that_of_the_worst_coordinate():
    records = np.random.default_rng(1).integers(0, 1001, (50, 3))
    trace = kmeans(records, 2, beta=Fraction(0), max_iter=1, seed=7)
    found = trace.sums / trace.sizes[:, None]
    assert peers.largest_error(found, records, 2) < 1e-9
    found[1, 2] += 0.25
    assert peers.largest_error(found, records, 2) == pytest.approx(0.25)
    found[0, 0] = np.nan
    assert peers.largest_error(found, records, 2) == float("inf")


def test_sizes_that_overflow_spu_are_known():
    assert not peers.overflows(10_000, 10, 1000)
    assert peers.overflows(10_000, 100, 1000), "a score"
    assert peers.overflows(1_000_000, 2, 1000), "a sum"


def test_ports_of_a_link_lead_to_the_parties():
    with peers._ports(None) as (ports, seen):
        assert ports == seen
    with (
        peers._ports(Link("far", 1, 1, 0)) as (ports, seen),
        socket.create_server(("127.0.0.1", ports[1])) as party,
        socket.create_connection(("127.0.0.1", seen[1])) as caller,
    ):
        assert not {*ports} & {*seen}
        caller.sendall(b"hello")
        with party.accept()[0] as met:
            assert met.recv(5) == b"hello"


@needs_spu
def test_spu_gives_nearly_the_same_centres(tmp_path):
    result = peers.run(60, 2, 2, runs=1, python=PYTHON, points=Points(tmp_path / "p.jsonl"))
    own, *spu = result["points"]
    assert own["error"] == 0
    assert [x["system"] for x in spu] == list(peers.PROTOCOLS.values())
    for x in spu:
        assert 0 < x["error"] < 1, "fixed point: near, and not exact"
        assert x["bytes"] > 0
        assert x["seconds"] > 0
