"""An observer of sizes learns nothing of a whole job but its cells and spec."""

import pytest

from ppodc.linkage.blocks.keys import Key
from tests.harness import two_clouds
from tests.linkage.test_edges import CASES, linked
from tests.mpc.pair import Recorder

BY_CODE = Key("code", buckets=4)
ALIKE = next(f"{n}" for n in range(500, 600) if BY_CODE.number(f"{n}") == BY_CODE.number("103"))
ROWS = {  # (ann, bob) with nothing in common, and nothing but common rows, in the same cells
    "sse": ([(3, 4, 5)] * 3, [(60, 9, 1)] * 4),
    "edit": ([("anna", "103"), ("", ""), ("hannah", "1")], [("bo", "55")] * 4),
    "length": ([("anna", "103")] * 3, [("bert", "555")] * 4),
    "fields": ([("anna", "1", 1990), (None, None, None), ("", "9", 1993)], [("bo", "5", 1991)] * 4),
    "key": ([("anna", "103", 1990)] * 3, [("bo", "5", 1990)] * 4),
    "keys": ([("anna", "103", 1990)] * 3, [("bo", ALIKE, 1990)] * 4),
    "dice": ([0b1011] * 3, [0b1100000] * 4),
}


@pytest.fixture
def watched(monkeypatch):
    """Every channel of a job, as its two ends sent on it."""
    pairs = []

    def recorded(make=two_clouds.memory_pair):
        pairs.append([Recorder(end) for end in make()])
        return pairs[-1]

    monkeypatch.setattr(two_clouds, "memory_pair", recorded)
    monkeypatch.setattr("ppodc.privacy.cell_noise.padding", lambda *_: 2)  # or cells would differ
    return pairs


OUTPUTS = [{"max_links": 3}, {"output": "flags"}, {"output": "count"}]


@pytest.mark.parametrize(
    ("case", "change"),
    [*((case, {}) for case in ROWS), *((case, out) for case in ("sse", "keys") for out in OUTPUTS)],
)
def test_sizes_of_all_messages_are_the_same_whatever_the_data(tmp_path, watched, case, change):
    ann, bob = ROWS[case]
    common = ann[:1]
    apart, _ = linked(case, tmp_path / "apart", ann, bob, **change)
    alike, _ = linked(case, tmp_path / "alike", common * 3, common * 4, **change)
    assert apart["ann"] != alike["ann"]
    (first, second) = watched
    assert [end.shape() for end in first] == [end.shape() for end in second]
    assert len(first[0].sent) > 10


def test_every_rule_is_watched():
    assert set(ROWS) == set(CASES) - {"adtree", "embedding"}  # whose cells follow the data
