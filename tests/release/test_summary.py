"""The table at the end of `make test` counts what pytest reports."""

from tests.summary import count, room_of, text

REPORT = """<testsuites><testsuite>
<testcase classname="tests.kmeans.shares.test_a" name="one"/>
<testcase classname="tests.kmeans.test_b" name="two"><failure message="no"/></testcase>
<testcase classname="tests.test_borders" name="three"><skipped message="no data"/></testcase>
<testcase classname="tests.kmeans.test_b" name="four"><error message="no"/></testcase>
</testsuite></testsuites>"""


def test_outcomes_are_counted_by_room(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    rooms, reasons = count([tmp_path / "report.xml"])
    assert rooms["kmeans"] == {"passed": 1, "failed": 2}
    assert rooms["whole tree"] == {"skipped": 1}
    assert reasons == ["1 skipped: no data"]
    assert text(rooms, reasons).splitlines()[-2].split() == ["all", "1", "2", "1"]


def test_a_class_of_tests_is_of_its_room():
    assert room_of("tests.totals.test_totals.TestSums") == "totals"
    assert room_of("tests.test_docs") == "whole tree"
