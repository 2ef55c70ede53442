"""A desk or a cloud that is killed while a table is sent: it goes on, and nothing counts twice."""

import os
import re
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import client.sending
from client.desk.cloud_screens import CloudScreens
from client.desk.owner_screens import OwnerScreens
from client.operator import Operator
from ppodc.local.platform import free_ports
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, Cloud2Config, load
from ppodc.service.store import Store
from tests.desk.running import by_file, running
from tests.desk.world import OWNERS, rows_of, spec_of, write_table
from tests.harness.patience import wait_for


def started(config):
    """The command itself, and a caller that has opened it."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "ppodc.cli", "desk", "--no-browser", "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    line = process.stdout.readline()
    return process, by_file(Path(unquote(urlsplit(line[line.index("file:") :].strip()).path)))


def test_a_killed_desk_goes_on_and_its_rows_count_once(clouds, tmp_path, monkeypatch):
    spec = clouds.create(replace(spec_of("totals"), name="killed"))
    table = write_table(tmp_path / "t.csv", spec, rows_of("totals", 0))
    uploads = clouds.stores[0].uploads
    arrived, go_on, put = threading.Event(), threading.Event(), uploads.put_chunk

    def late(*chunk):
        """The rows are on their way, and cloud 1 has not answered."""
        arrived.set()
        go_on.wait(120)
        put(*chunk)

    monkeypatch.setattr(uploads, "put_chunk", late)
    process, desk = started(clouds.config(OWNERS[0]))
    try:
        desk.post("/study/killed/agree", digest=spec.digest[-8:], may="yes")
        desk.put("/study/killed/file?name=t.csv", table)
        names = {f"column-{i}": name.upper() for i, name in enumerate(spec.schema.names)}
        assert desk.post("/study/killed/table", do="go", **names).status == 303
        assert desk.post("/study/killed/send").status == 303
        assert arrived.wait(120)
        assert "Your rows are on their way" in desk.get("/study/killed/send")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        go_on.set()
    monkeypatch.undo()
    folder = clouds.config(OWNERS[0]).parent / "uploads" / "desk" / "study-killed"
    assert (folder / "table.csv").exists()  # in the private folder, to go on with
    with running(partial(OwnerScreens, clouds.config(OWNERS[0]))) as again:
        again.open()
        assert "A table is half sent" in again.get("/")
        assert "Go on sending" in again.get("/study/killed/send")
        again.post("/study/killed/send")
        wait_for(lambda: "24 rows of yours are at the clouds" in again.get("/study/killed/send"))
    assert not folder.exists()
    for store in clouds.stores:
        counted = [upload.rows for upload in store.uploads.of("killed") if upload.committed]
        assert counted == [24]


# A cloud's service as it is; the second call of STUCK is stored and never answered.
_SERVE = """
import pathlib, sys, threading
from {party}.service import serve
from ppodc.service.store.uploads import Uploads
stuck, calls = {stuck!r}, []
if stuck:
    store = getattr(Uploads, stuck)
    def late(*arguments):
        store(*arguments)
        calls.append(1)
        if len(calls) == {after}:
            print("stuck", flush=True)
            threading.Event().wait()
    setattr(Uploads, stuck, late)
serve(pathlib.Path({config!r}), lambda endpoint: print("ready", flush=True))
"""


@contextmanager
def service(party, config, stuck="", after=1):
    """A cloud as a process; it is killed with the block."""
    code = _SERVE.format(party=party, config=str(config), stuck=stuck, after=after)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "RAY_ADDRESS": ""})  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(("killed", "stuck", "after"), [(1, "put_chunk", 2), (2, "put_seed", 1)])
def test_a_killed_cloud_comes_back_and_the_desk_goes_on(
    killed, stuck, after, tmp_path, monkeypatch
):
    monkeypatch.setattr(client.sending, "_CHUNK_BYTES", 8 * 3 * 5)  # five rows of three columns
    *free, health = free_ports(4)
    ports = [f"tcp://127.0.0.1:{port}" for port in free]
    names = ("cloud1_listen", "cloud2_listen", "cloud2_listen_control")
    home = deployment.create(tmp_path / "new", OWNERS, **dict(zip(names, ports, strict=True)))
    parties = {number: f"cloud{number}" for number in (1, 2)}
    files = {number: home.party(party).config for number, party in parties.items()}
    north = home.party(OWNERS[0]).config
    north.write_text(re.sub(r"(?m)^timeout = .*$", "timeout = 5.0", north.read_text()))
    told = f'health = "127.0.0.1:{health}"'
    files[1].write_text(files[1].read_text().replace('health = ""', told))
    spec = replace(spec_of("totals"), owners=deployment.members(home.folder))
    table = write_table(tmp_path / "t.csv", spec, rows_of("totals", 0))
    there = f"/study/{spec.name}"
    with ExitStack() as stack:
        survivor = 3 - killed
        stack.enter_context(service(parties[survivor], files[survivor]))
        with service(parties[killed], files[killed], stuck, after) as process:
            with Operator.connect(home.party("operator").config) as operator:
                operator.create(spec)
            desk = stack.enter_context(running(partial(OwnerScreens, north)))
            desk.open()
            desk.post(f"{there}/agree", digest=spec.digest[-8:], may="yes")
            desk.put(f"{there}/file?name=t.csv", table)
            chosen = {f"column-{i}": name.upper() for i, name in enumerate(spec.schema.names)}
            assert desk.post(f"{there}/table", do="go", **chosen).status == 303
            assert desk.post(f"{there}/send").status == 303
            assert process.stdout.readline() == "stuck\n"
            assert "Your rows are on their way" in desk.get(f"{there}/send")
        wait_for(lambda: "A cloud does not answer" in desk.call("GET", f"{there}/send").text)
        stack.enter_context(service(parties[killed], files[killed]))
        wait_for(lambda: "Go on sending" in desk.call("GET", f"{there}/send").text)
        assert desk.post(f"{there}/send").status == 303
        wait_for(lambda: "24 rows of yours are at the clouds" in desk.get(f"{there}/send"))
        cloud = stack.enter_context(running(partial(CloudScreens, files[1])))
        cloud.open()
        overview = cloud.get("/")
        assert "All well" in overview
        assert re.search(r'<th scope="row">answered</th><td class="n">[1-9]', overview)
    for number, kind in ((1, Cloud1Config), (2, Cloud2Config)):
        with Store.open(load(files[number], kind).store, parties[number]) as store:
            uploads = store.uploads.of(spec.name)
            assert [upload.rows for upload in uploads if upload.committed] == [24]
            assert len(uploads) == 1
