"""An iteration with noise between two processes: exact, and counted by part."""

from ppodc.bench.local_dp import clouds
from ppodc.bench.points import Points
from tests.bench.look import check_document


def test_the_opened_values_are_the_references():
    document = clouds.run(m=200, l=2, k=2, iterations=2, points=Points())
    (point,) = document["points"]
    assert point["exact"]
    assert [part["what"] for part in point["parts"]] == ["taking in", "supplies", "iteration"]
    assert all(part["bytes"] > 0 for part in point["parts"])
    assert "equal the reference: yes" in check_document(document, "ldp clouds")
