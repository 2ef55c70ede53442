"""A store keeps what the form of a kind says: other types, rows at both clouds, or nothing."""

import secrets

import numpy as np
import pytest

from ppodc.errors import InputError
from ppodc.kinds import owner_side
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.spec import Spec
from tests.service.data import sealed_rows
from tests.service.made_up.kind import made_up_spec

VALUES = np.arange(10).reshape(5, 2) * 9


def put(store, spec, cloud, upload_id, secret):
    """All rows of this cloud's part, in two chunks."""
    side = owner_side(spec)
    store.uploads.begin(spec.name, "ann", upload_id, len(VALUES))
    for first, stop in ((3, 5), (0, 3)):
        chunk = side.chunk(VALUES[first:stop], secret, first, cloud)
        store.uploads.put_chunk(upload_id, first, chunk)
    store.uploads.commit(upload_id)


def test_rows_for_one_cloud_and_nothing_for_the_other(two, tmp_path, monkeypatch):
    first, second = two
    spec, upload_id = made_up_spec(monkeypatch, 1), secrets.token_hex(16)
    for store in two:
        store.datasets.create(spec)
    put(first, spec, 1, upload_id, bytes(32))
    first.seals.seal(spec.name, [upload_id])
    rows = sealed_rows(first, spec.name, 1, 3)
    assert rows.dtype == np.uint16
    assert np.array_equal(rows, VALUES[1:4])
    kept = [path.stat().st_size for path in (tmp_path / "c1" / "uploads" / upload_id).iterdir()]
    assert sorted(kept) == [2 * 2 * 2, 3 * 2 * 2]  # rows, columns, bytes
    with pytest.raises(InputError, match="do not concern cloud 2"):
        second.uploads.begin(spec.name, "ann", upload_id, len(VALUES))
    assert second.uploads.of(spec.name) == []


def test_rows_for_both_clouds(two, monkeypatch):
    spec, upload_id, secret = (
        made_up_spec(monkeypatch, 2),
        secrets.token_hex(16),
        secrets.token_bytes(32),
    )
    for cloud, store in enumerate(two, 1):
        store.datasets.create(spec)
        put(store, spec, cloud, upload_id, secret)
        assert store.uploads.missing(upload_id) == []
        with pytest.raises(InputError, match=f"cloud {cloud} takes the rows"):
            store.uploads.put_seed(upload_id, secret)
    digests = {store.seals.seal(spec.name, [upload_id]) for store in two}
    assert len(digests) == 1
    parts = [sealed_rows(store, spec.name, 0, 5) for store in two]
    assert np.array_equal(parts[0] + parts[1], VALUES)
    assert not np.array_equal(parts[0], VALUES)


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (np.ones((5, 2), np.uint64), "of type uint16"),
        (np.ones((5, 2), np.uint8), "of type uint16"),
        (np.ones((5, 3), np.uint16), "rows of 2 numbers"),
        (np.ones(10, np.uint16), "rows of 2 numbers"),
        (np.ones((0, 2), np.uint16), "at least one row"),
        (np.ones((6, 2), np.uint16), "beyond the 5 rows"),
        (np.full((5, 2), 1000, np.uint16), "no upload can have"),
    ],
)
def test_what_is_not_of_the_form_is_refused(two, monkeypatch, chunk, reason):
    first, spec, upload_id = two[0], made_up_spec(monkeypatch, 1), secrets.token_hex(16)
    first.datasets.create(spec)
    first.uploads.begin(spec.name, "ann", upload_id, 5)
    with pytest.raises(InputError, match=reason):
        first.uploads.put_chunk(upload_id, 0, chunk)
    assert first.uploads.missing(upload_id) == [(0, 5)]


def test_results_of_any_kind(two, monkeypatch):
    first, spec, upload_id = two[0], made_up_spec(monkeypatch, 1), secrets.token_hex(16)
    first.datasets.create(spec)
    put(first, spec, 1, upload_id, bytes(32))
    first.seals.seal(spec.name, [upload_id])
    twice = OutputShare.of(1 << 16, [2 * value for value in range(5)])
    result = ResultShare({}, {"sums": OutputShare.of(1 << 40, [5, 7])}, {"twice": twice})
    first.results.save(spec.name, result)
    assert first.results.half(spec.name).halves == result.halves
    assert first.results.own_rows(spec.name, "twice", upload_id) == twice
    events = [entry.event for entry in first.ledger.entries(spec.name)]
    assert events[-2:] == ["twice half stored", "result half stored"]


def test_a_spec_is_parsed_once(two, monkeypatch):
    first, spec, upload_id = two[0], made_up_spec(monkeypatch, 1), secrets.token_hex(16)
    first.datasets.create(spec)
    parsed = []
    original = Spec.from_bytes
    monkeypatch.setattr(Spec, "from_bytes", lambda data: parsed.append(data) or original(data))
    put(first, spec, 1, upload_id, bytes(32))
    assert first.datasets.spec(spec.name) == spec
    assert len(parsed) == 1
    assert first.datasets.spec(spec.name).form is first.datasets.spec(spec.name).form
