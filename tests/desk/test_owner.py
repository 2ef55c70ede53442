"""The whole path of an owner over HTTP, for every kind of job, against real gateways and jobs."""

import csv
import io
import itertools
import json
import re
import socket
import stat
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from client.desk.drafts import Choices, Draft
from client.desk.owner_screens import OwnerScreens
from client.desk.pages import number
from ppodc.service.config import OwnerConfig, load
from tests.desk.plaintext import check_exact
from tests.desk.running import running
from tests.desk.world import OWNERS, SPECS, names_of, patients, rows_of, spec_of, write_table
from tests.harness.patience import LONG, wait_for

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def desk_of(world, name):
    return running(partial(OwnerScreens, world.config(name)))


def opened(world, name):
    """A desk that was opened."""
    return desk_of(world, name)


def step_through(desk, world, spec, table, owner=0):
    """Agree, choose the table, go on, send; until the rows are at the clouds."""
    there = f"/study/{spec.name}"
    agree = desk.get(f"{there}/agree")
    assert spec.digest[-8:] in agree
    tail = {"digest": spec.digest[-8:], "may": "yes"}
    assert desk.post(f"{there}/agree", **tail).status == 303
    put = desk.put(f"{there}/file?name=export.csv", table)
    assert put.headers.get("x-desk-next") == f"{desk.access.base}{there}/table", put.text
    page = desk.get(f"{there}/table")
    assert "export.csv" in page
    assert "secret remark" in page  # the owner's own preview, on this screen only
    columns = names_of(spec, owner)
    for other in {*names_of(spec, 0), *names_of(spec, 1)} - set(columns):
        assert other not in page  # a column that others alone hold is not asked for
    chosen = {f"column-{i}": column.upper() for i, column in enumerate(columns)}
    went = desk.post(f"{there}/table", do="go", **chosen)
    assert went.headers.get("location") == f"{desk.access.base}{there}/send", went.text
    assert "Send 24 rows" in desk.get(f"{there}/send")
    assert desk.post(f"{there}/send").status == 303
    wait_for(lambda: "are at the clouds" in desk.get(f"{there}/send"))
    folder = world.config(OWNERS[0]).parent / "uploads" / "desk"
    assert not list(folder.glob("study-*"))  # deleted once it was sent


@pytest.mark.parametrize("kind", list(SPECS))
def test_the_whole_path_of_an_owner(kind, tmp_path, request):
    world = request.getfixturevalue("single" if kind == "local" else "clouds")
    spec = world.create(spec_of(kind))
    tables = [write_table(tmp_path / f"{i}.csv", spec, rows_of(kind, i), owner=i) for i in range(2)]
    there = f"/study/{spec.name}"
    with opened(world, OWNERS[0]) as desk:
        desk.open()
        assert "Read and agree" in desk.get("/")
        step_through(desk, world, spec, tables[0])
        assert "Waiting for others" in desk.get("/")
        with opened(world, OWNERS[1]) as other:
            other.open()
            step_through(other, world, spec, tables[1], 1)
        world.run(spec.name)
        assert "The result is here" in desk.get(f"{there}/wait")
        page = desk.get(f"{there}/result")
        results = []
        for name in OWNERS:
            with world.owner(name) as owner:
                results.append(owner.result(spec.name, timeout=600))
        check_exact(kind, spec, results)
        result = results[0]
        if kind.startswith("join"):
            check_joined(page, result)
        check_numbers(page, result)
        files(desk, spec, there, result)
        beside(desk, spec, there, tables[0], result, kind)
        ledger = desk.get(f"/ledger?study={spec.name}")
        assert "The chain holds" in ledger
        assert "broken" not in ledger
        again = desk.get(f"/ledger?study={spec.name}")
        assert "Nothing was changed or cut off since you last looked" in again
    folder = world.config(OWNERS[0]).parent
    assert not list(folder.rglob("*.csv"))  # closing leaves no table behind


def check_joined(page, result):
    """Every third person is in both tables, and only the anchor's owner is told of its rows."""
    if hasattr(result, "labels_"):
        assert "2 clusters of 8 joined rows" in page
        assert [i for i in range(24) if result.labels_[i] >= 0] == list(range(0, 24, 3))
        assert "Each owner on the anchor&#39;s side learns which of its own rows" in page
    else:
        assert result.count_ == 8
        assert "Correlations" in page
        assert f">{number(result.corr_[0, 1], 3)}</td>" in page


def check_numbers(page, result):
    """Every figure of the result stands on the page."""
    if hasattr(result, "by_k"):
        result = result.by_k[min(result.by_k)]
    if hasattr(result, "cluster_centers_"):
        for centre in np.asarray(result.cluster_centers_, float):
            for value in centre[~np.isnan(centre)]:
                assert f">{number(float(value), 6)}</td>" in page
        for size in np.rint(np.asarray(result.sizes_, float)):
            assert f">{int(size):,}</td>" in page or "not told" in page
    elif getattr(result, "links_", None) is not None:
        assert sum(map(len, result.links_)) >= 8
        for row, links in enumerate(result.links_):
            for owner, _, place in links:
                found = (
                    rf'<th scope="row" class="n">{row + 1}</th>.*?<td>{owner}</td><td>{place + 1}<'
                )
                assert re.search(found, page)
    else:
        for value in (*result.sum_, *result.mean_, *result.var_):
            assert number(float(value), 6) in page


def files(desk, spec, there, result):
    table = list(csv.reader(io.StringIO(desk.get(f"{there}/result.csv"))))
    headings, rows = result.table()
    assert table[0] == headings
    assert len(table) == len(rows) + 1
    told = json.loads(desk.get(f"{there}/result.json"))
    assert told["digest"] == spec.digest
    report = desk.get(f"{there}/report.html?k=3")
    assert ("Clusters, 3 of them" in report) == hasattr(result, "by_k")
    assert spec.digest in report
    assert not re.search(r"(src|href)=", report)  # self-contained
    assert "<script" not in report


def beside(desk, spec, there, table, result, kind):
    """Own rows beside the result, with the owner's own ids."""
    if "totals" in kind:
        return
    put = desk.put(f"{there}/own?name=export.csv", table)
    assert put.headers.get("x-desk-next"), put.text
    assert desk.post(f"{there}/own", ids="case_no").status == 303
    page = desk.get(f"{there}/result")
    assert "secret remark" not in page
    rows = list(csv.reader(io.StringIO(desk.get(f"{there}/rows.csv"))))
    assert rows[0][0] == "case_no"
    assert [row[0] for row in rows[1:]] == [f"N-{i}" for i in range(24)]
    if kind == "linkage":
        assert "N-0" in page
        assert [int(row[1]) for row in rows[1:]] == result.partners_
    elif kind in ("kmeans", "join"):
        assert [int(row[1]) for row in rows[1:]] == result.labels_.tolist()
        assert page.count('class="pt ') == (24 if kind == "kmeans" else 0)
        assert ("Small marks are your own rows" in page) == (kind == "kmeans")
    assert desk.post(f"{there}/own/forget").status == 303


# ------------------------------------------------------------------------------------- refusals


NUMBERS = itertools.count()


@pytest.fixture
def study(clouds):
    """A study of the test's own that stays open, with names that are markup."""
    spec = spec_of("totals")
    first = replace(spec.schema.columns[0], name=HOSTILE)
    schema = replace(spec.schema, columns=(first, *spec.schema.columns[1:]))
    return clouds.create(replace(spec, name=f"open-{next(NUMBERS)}", schema=schema))


@pytest.fixture(scope="module")
def desk(clouds):
    with opened(clouds, OWNERS[0]) as desk:
        desk.open()
        yield desk


def kept(clouds, study):
    """Where the desk keeps the owner's table for this study."""
    folder = clouds.config(OWNERS[0]).parent / "uploads" / "desk"
    return Draft(folder, study.name).original


def test_nothing_is_sent_without_agreement(desk, study, clouds, tmp_path):
    table = write_table(tmp_path / "t.csv", study, rows_of("totals", 0))
    put = desk.put(f"/study/{study.name}/file?name=t.csv", table)
    assert put.status == 400
    assert "not agreed" in put.text
    assert desk.post(f"/study/{study.name}/send").status == 400
    wrong = desk.post(f"/study/{study.name}/agree", digest="00000000", may="yes")
    assert "not the last eight characters" in wrong.text
    unticked = desk.post(f"/study/{study.name}/agree", digest=study.digest[-8:])
    assert "Tick the box" in unticked.text
    with clouds.owner(OWNERS[0]) as owner:
        assert not owner.has_accepted(study)
        assert owner.uploads(study.name) == []


def test_the_digest_is_covered_until_it_is_wanted(desk, study):
    page = desk.get(f"/study/{study.name}/agree")
    shown = page.split("<details><summary>Uncover")[0]
    assert study.digest[-8:] not in shown
    assert study.digest[:8] in shown


def agree(desk, study):
    desk.post(f"/study/{study.name}/agree", digest=study.digest[-8:], may="yes")


def test_names_and_values_are_shown_as_text(desk, study, tmp_path):
    agree(desk, study)
    table = tmp_path / "hostile.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([[HOSTILE, "pressure", "glucose"], ["41", "100", HOSTILE]])
    put = desk.put(f"/study/{study.name}/file?name={'%3Cscript%3E'}.csv", table)
    assert put.headers.get("x-desk-next"), put.text
    pages = [desk.get(f"/study/{study.name}/{page}") for page in ("agree", "table")]
    pages.append(desk.call("GET", "/study/%3Cscript%3Ealert(3)%3C%2Fscript%3E/wait").text)
    pages.append(desk.call("GET", "/ledger?study=%22%3E%3Cscript%3E").text)
    for page in pages:
        assert "alert" not in page or "&lt;script&gt;alert" in page
        assert not re.search(r"<script(?! src=\"/[^\"]+/static/desk.js\" defer>)", page)
        assert "<img" not in page


def test_faults_are_told_by_line_and_never_by_value(desk, study, tmp_path):
    agree(desk, study)
    table = tmp_path / "faulty.csv"
    secret = ["777.25", "sekret", "", "-3", "1e999"]
    with table.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["Age", "pressure", "glucose"])
        out.writerows([["41", "100", "5"]] * 6)
        out.writerows([[cell, "100", "5"] for cell in secret])
        out.writerow(["41", "100"])
    assert desk.put(f"/study/{study.name}/file?name=f.csv", table).headers.get("x-desk-next")
    desk.post(f"/study/{study.name}/table", **{"column-0": "Age", "column-1": "pressure",
                                            "column-2": "glucose", "do": "look"})  # fmt: skip
    page = desk.get(f"/study/{study.name}/table")
    assert "6 rows ready. 6 rows have a problem" in page
    problems = desk.get(f"/study/{study.name}/problems.csv").splitlines()
    assert [line.rsplit(",", 1)[1] for line in problems[1:]] == [
        "is above the limit of 110",
        "is not a number",
        "is empty",
        "is below the limit of 0",
        "is not a number",
        "has 2 fields instead of 3",
    ]
    assert [int(line.split(",")[0]) for line in problems[1:]] == [8, 9, 10, 11, 12, 13]
    shown = page + "\n".join(problems)
    for value in ("777.25", "sekret", "1e999"):
        assert value not in shown
    chosen = {f"column-{i}": name for i, name in enumerate(("Age", "pressure", "glucose"))}
    undecided = desk.post(f"/study/{study.name}/table", do="go", **chosen)
    assert "Decide first" in undecided.text
    went = desk.post(f"/study/{study.name}/table", do="go", faulty="leave", **chosen)
    assert went.headers["location"].endswith("/send"), went.text
    page = desk.get(f"/study/{study.name}/send")
    assert "6 left out" in page


def test_a_chosen_table_is_private_and_can_be_deleted(desk, study, clouds, tmp_path):
    agree(desk, study)
    table = write_table(tmp_path / "t.csv", study, rows_of("totals", 0))
    desk.put(f"/study/{study.name}/file?name=t.csv", table)
    file = kept(clouds, study)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    desk.post(f"/study/{study.name}/forget")
    assert not file.exists()


def test_tables_that_a_killed_desk_left_behind_go(clouds, tmp_path):
    """Beside a result at once; half sent, when the rows of the study are fixed."""
    spec = clouds.create(replace(spec_of("totals"), name="left-behind"))
    for place, name in enumerate(OWNERS):
        with clouds.owner(name) as owner:
            owner.upload(spec.name, patients(5, place), spec=spec)
    folder = clouds.config(OWNERS[0]).parent / "uploads" / "desk"
    drafts = [Draft(folder, spec.name), Draft(folder / "beside", spec.name)]
    for draft in drafts:
        write_table(draft.place(), spec, rows_of("totals", 0))
        draft.choose(Choices(name="t.csv", digest=spec.digest, sending=draft is drafts[0]))
    with opened(clouds, OWNERS[0]) as desk:
        desk.open()
        assert [draft.exists for draft in drafts] == [True, False]
        assert "Go on sending" in desk.get("/")
        clouds.run(spec.name)
        assert "Go on sending" not in desk.get("/")
        assert not drafts[0].exists


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xfe\x00a", "not text in UTF-8"),
        (b"", "names of the columns"),
        (b"a,a\n1,2\n", "the same name"),
    ],
)
def test_a_file_that_is_no_table_is_refused_and_deleted(desk, study, clouds, data, words):
    agree(desk, study)
    refused = desk.put(f"/study/{study.name}/file?name=t.csv", data)
    assert words in refused.text
    assert not kept(clouds, study).exists()


def test_a_file_larger_than_the_disk_is_refused_before_it_is_read(desk, study, clouds):
    agree(desk, study)
    whole = {**desk.headers(), "Content-Length": str(1 << 60)}
    head = "".join(f"{name}: {value}\r\n" for name, value in whole.items())
    with socket.create_connection(("127.0.0.1", desk.port)) as caller:
        path = f"{desk.access.base}/study/{study.name}/file?name=t.csv"
        caller.sendall(f"PUT {path} HTTP/1.1\r\n{head}\r\nage\n".encode())
        answer = caller.makefile("rb").readline()
    assert b" 400 " in answer
    assert not kept(clouds, study).exists()


def test_withdrawing_and_sending_again(desk, study, clouds, tmp_path):
    agree(desk, study)
    table = tmp_path / "t.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([["Age", "pressure", "glucose"], *[["41", "100", "5"]] * 5])
    chosen = {f"column-{i}": name for i, name in enumerate(("Age", "pressure", "glucose"))}
    desk.put(f"/study/{study.name}/file?name=t.csv", table)
    desk.post(f"/study/{study.name}/table", do="go", **chosen)
    desk.post(f"/study/{study.name}/send")
    wait_for(lambda: "5 rows of yours are at the clouds" in desk.get(f"/study/{study.name}/send"))
    assert desk.post(f"/study/{study.name}/withdraw").status == 303
    with clouds.owner(OWNERS[0]) as owner:
        assert owner.uploads(study.name) == []
    assert "Nothing to send" in desk.get(f"/study/{study.name}/send")


def test_a_book_that_was_cut_off_is_told_on_the_first_page(clouds, study):
    """By what the owner's client noted at any time, whatever it did then."""
    config = load(clouds.config(OWNERS[1]), OwnerConfig)
    with clouds.owner(OWNERS[1]) as owner:
        owner.check_ledgers()
    heads = config.uploads / "ledger" / "heads.json"
    noted = json.loads(heads.read_text())
    noted["heads"][config.cloud2.public_key]["number"] += 1000
    heads.write_text(json.dumps(noted))
    with opened(clouds, OWNERS[1]) as desk:
        desk.open()
        assert "lost entries" not in desk.get("/")
        page = desk.get("/ledger")
        assert page.count("The chain holds") == 1
        assert page.count("Entries are missing") == 1
        assert "tell the same story" not in page
        assert "Entries are missing" in desk.get("/ledger")  # what was noticed stays
        assert "A book has lost entries" in desk.get("/")
    heads.unlink()


def test_an_unknown_page_and_an_unknown_study(desk):
    assert desk.call("GET", "/nowhere").status == 404
    unknown = desk.call("GET", "/study/never-heard/wait")
    assert unknown.status == 400
    assert "no study" in unknown.text


def test_the_button_ends_the_desk(clouds, study):
    with opened(clouds, OWNERS[1]) as desk:
        desk.open()
        assert "The desk is closed" in desk.post("/close").text
        desk.thread.join(LONG)
        assert not desk.thread.is_alive()
