"""Two owners link directly over a network: by call and by command; who is missing or disagrees."""

import csv
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

from client.platforms.direct import link_with
from ppodc.cli import app
from ppodc.errors import ChannelError, InputError
from ppodc.local.platform import free_ports
from ppodc.spec import Spec
from ppodc.transport.curve_keys import CurveKeys
from tests.harness.patience import LONG

SPEC = """
name = "d"
[schema]
ub = 63
columns = [{ name = "x", low = 0, high = 63 }, { name = "y", low = 0, high = 63 }]
[job]
kind = "linkage"
rule = "sse"
weights = [1, 1]
limit = 1
"""
ANN = np.array([[1, 1], [20, 20], [40, 40]])
BOB = np.array([[20, 21], [60, 60], [40, 40], [40, 41]])


@pytest.fixture
def places(tmp_path):
    """Spec, keys and tables of both owners."""
    (tmp_path / "spec.toml").write_text(SPEC)
    for name, rows in (("ann", ANN), ("bob", BOB)):
        CurveKeys.generate().save(tmp_path / name)
        lines = ["x,y", *(",".join(map(str, row)) for row in rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def free_address():
    return f"tcp://127.0.0.1:{free_ports(1)[0]}"


def options(places, name, other, role, address):
    return {
        "role": role,
        "owner": name,
        "address": address,
        "key": places / name,
        "peer": places / f"{other}.public",
        "privacy": places / f"{name}-privacy",
        "wait": LONG,
    }


def in_thread(work):
    """Start it; a function that waits for its result or error."""
    found = []

    def run():
        try:
            found.append(work())
        except Exception as error:  # noqa: BLE001 - handed to the test
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def result():
        thread.join(LONG)
        return found[0]

    return result


def test_a_call_and_a_command_find_the_same_links(places):
    address = free_address()
    bob = in_thread(
        lambda: link_with(
            places / "spec.toml", places / "bob.csv", **options(places, "bob", "ann", 2, address)
        )
    )
    arguments = [
        *("link", "pair", str(places / "spec.toml"), str(places / "ann.csv")),
        *("--role", "1", "--name", "ann", "--address", address),
        *("--key", str(places / "ann"), "--peer", str(places / "bob.public")),
        *("--links", str(places / "links.csv")),
    ]
    told = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert told.exit_code == 0, told.output
    result = bob()
    assert result.partners_ == [1, 0, 1, 1]
    assert result.links_ == [(("ann", 0, 1),), (), (("ann", 0, 2),), (("ann", 0, 2),)]
    with (places / "links.csv").open() as file:
        assert list(csv.reader(file)) == [["row", "owner", "owner_row"], ["1", "bob", "0"]]
    assert "more than 1\t1" in told.output  # ann's third row has two partners


def test_the_budget_says_what_cells_were_for(places):
    address, spec = free_address(), places / "spec.toml"
    spec.write_text(SPEC + 'blocks = "adtree"\nepsilon = 4\ndelta = 0.01\n')
    bob = in_thread(lambda: link_with(spec, BOB, **options(places, "bob", "ann", 2, address)))
    link_with(spec, places / "ann.csv", **options(places, "ann", "bob", 1, address))
    assert bob().partners_ == [1, 0, 1, 1]
    for name, what in (("ann", "d: ann.csv"), ("bob", "d")):
        folder = str(places / f"{name}-privacy")
        said = CliRunner().invoke(app, ["budget", "--folder", folder]).output
        assert f"\t{what}\t4\t0.01\n" in said


def test_another_spec_and_nobody_there_are_said_in_words(places):
    address = free_address()
    other = places / "other.toml"
    other.write_text(SPEC.replace("limit = 1", "limit = 2"))
    bob = in_thread(lambda: link_with(other, BOB, **options(places, "bob", "ann", 2, address)))
    with pytest.raises(ChannelError, match="disagree on 'linkage spec'"):
        link_with(places / "spec.toml", ANN, **options(places, "ann", "bob", 1, address))
    assert "'spec limit' (listening end: '1', connecting end: '2')" in str(bob())
    for role in (1, 2):
        alone = {**options(places, "ann", "bob", role, free_address()), "wait": 0.3}
        with pytest.raises(ChannelError, match=r"nobody connected|127\.0\.0\.1"):
            link_with(places / "spec.toml", ANN, **alone)


def test_bad_input_is_refused_before_anybody_is_called(places):
    both = options(places, "ann", "bob", 1, "192.0.2.7:1")
    with pytest.raises(InputError, match="tcp://"):
        link_with(places / "spec.toml", ANN, **both)
    both["address"] = free_address()
    with pytest.raises(InputError, match="row 0"):
        link_with(places / "spec.toml", ANN + 63, **both)


def test_a_pair_hears_of_no_cloud_and_of_a_missing_file_first(places):
    spec = places / "spec.toml"
    arguments = ["link", "pair", str(spec), str(places / "none.csv"), "--role", "2",
                 "--name", "ann", "--address", free_address(), "--key", str(places / "ann"),
                 "--peer", str(places / "bob.public")]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert "none.csv does not exist" in str(done.exception)
    assert done.output == ""
    told = "\n".join(Spec.load(spec).describe(clouds=False))
    assert "no owners yet" not in told
    assert "Every cloud" not in told
