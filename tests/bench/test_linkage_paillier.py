"""The published protocol under measurement: exact, and as many operations as published."""

from ppodc.bench.linkage import paillier
from ppodc.bench.points import Points


def test_a_run_is_exact_and_counts_as_published():
    result = paillier.run(side=4, key_bits=[256], points=Points(on="here"))
    assert [point["source"] for point in result["points"]] == list(paillier.SOURCES)
    for point in result["points"]:
        assert point["exact"]
        assert point["pairs"] == 16
        assert point["operations"] == 35
        assert min(point[f"{who}_ms"] for who in ("charlie", "alice", "bob", "record")) > 0
        two = point["two_parties"]
        assert two["exact"]
        assert two["operations"] == 13
        assert two["bytes"] < point["bytes"]
    assert [len(table["rows"]) for table in result["tables"]] == [3, 3]
