"""`ppodc demo --desk`: four desks as processes, two tables sent, a job on Ray started by a page."""

import re
from functools import partial

from client.desk.demo import demo_desks
from ppodc.local.synthetic import clinic_spec
from tests.desk.running import by_file
from tests.harness.patience import wait_for


def was_sent(desk, there):
    return "Sent</h2>" in desk.get(f"{there}/send")


def test_a_study_from_four_desks(tmp_path):
    names = clinic_spec().schema.names
    folder = tmp_path / "demo"
    seen = []

    def wait(_console):
        home = folder / "platform"
        desks = {
            party: by_file(home / party / place / "open-desk.html")
            for party, place in (
                ("north", "uploads/desk"),
                ("south", "uploads/desk"),
                ("operator", "uploads/desk"),
                ("cloud1", "desk"),
            )
        }
        study = clinic_spec().name
        tail = re.search(r">([0-9a-f]{64})<", desks["operator"].get(f"/study/{study}"))
        for owner in ("north", "south"):
            desk, there = desks[owner], f"/study/{study}"
            desk.post(f"{there}/agree", digest=tail[1][-8:], may="yes")
            assert desk.put(f"{there}/file?name=t.csv", folder / f"{owner}.csv").status == 200
            chosen = {f"column-{i}": name for i, name in enumerate(names)}
            went = desk.post(f"{there}/table", do="go", **chosen)
            assert went.status == 303, went.text
            desk.post(f"{there}/send")
            wait_for(partial(was_sent, desk, there))
        assert desks["cloud1"].post(f"/job/{study}/do", do="run").status == 303
        wait_for(lambda: ">done<" in desks["cloud1"].get(f"/job/{study}/state"))
        north = partial(desks["north"].call, "GET", f"/study/{study}/result")
        wait_for(lambda: "of 60 records" in north().text)  # cloud 2 is done after cloud 1
        seen.append(study)

    demo_desks(folder, 60, 1, wait)
    assert seen
