"""A desk that is killed while it sends: the next one goes on, and nothing counts twice."""

import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from client.desk.owner_screens import OwnerScreens
from tests.desk.running import by_file, eventually, running
from tests.desk.world import OWNERS, rows_of, spec_of, write_table


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
        eventually(lambda: "24 rows of yours are at the clouds" in again.get("/study/killed/send"))
    assert not folder.exists()
    for store in clouds.stores:
        counted = [upload.rows for upload in store.uploads.of("killed") if upload.committed]
        assert counted == [24]
