"""Memoised noise: the same record, the same report; anything else, independent words."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ppodc.errors import BudgetError, InputError, KeyFileError
from ppodc.local_dp.owner_reports import OwnerReports
from ppodc.local_dp.report_streams import ReportKey, insecure_streams, row_ids
from ppodc.privacy.guarantee import Guarantee

VALUES = np.arange(35).reshape(7, 5)


def streams(key, mechanism=b"m", ids=None, values=VALUES, scope=b""):
    return key.streams(mechanism, row_ids(0, len(values)) if ids is None else ids, values, scope)


def test_the_same_record_has_the_same_words_in_any_batch():
    key = ReportKey()
    whole = streams(key).words(9)
    part = streams(key, ids=row_ids(3, 2), values=VALUES[3:5])
    assert np.array_equal(part.words(9), whole[3:5])
    assert np.array_equal(streams(ReportKey(key.secret_bytes())).words(2), whole[:, :2])
    pieces = [(rows.start, words) for rows, words in streams(key).batches(1 << 20)]
    assert [start for start, _ in pieces] == list(range(7))
    assert all(np.array_equal(words[0, :9], whole[start]) for start, words in pieces)


def test_key_mechanism_id_value_and_scope_all_count():
    key = ReportKey()
    other = VALUES.copy()
    other[0, 4] += 1
    variants = [
        streams(key),
        streams(ReportKey()),
        streams(key, mechanism=b"n"),
        streams(key, ids=row_ids(1, 7)),
        streams(key, values=other),
        streams(key, scope=b"data"),
        streams(key, ids=key.named_ids(list("abcdefg"))),
        streams(key, values=np.pad(VALUES, ((0, 0), (0, 1)))),
    ]
    first = {variant.words(4)[0].tobytes() for variant in variants}
    assert len(first) == len(variants)
    assert np.array_equal(streams(key, values=other).words(4)[1:], streams(key).words(4)[1:])


def test_the_tag_is_a_cbc_mac():
    key = ReportKey(bytes(range(32)))
    derived = key._derived(b"tag", b"m", b"s", b"5")
    padded = np.zeros((7, 8), "<u4")
    padded[:, :5] = VALUES
    for row, tag in zip(range(7), streams(key, scope=b"s").tags, strict=True):
        cipher = Cipher(algorithms.AES256(derived), modes.CBC(bytes(16))).encryptor()
        message = row_ids(row, 1).astype("<u8").tobytes() + padded[row].tobytes()
        assert cipher.update(message)[-16:] == tag.astype("<u8").tobytes()


def test_words_are_uniform():
    words = insecure_streams(1 << 14, seed=5).words(64)
    counts = np.bincount((words >> 24).ravel(), minlength=256)
    expected = words.size / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 6 * np.sqrt(2 * 255)


def test_a_key_keeps_its_secret():
    key = ReportKey()
    assert key.secret_bytes().hex() not in repr(key) + key.fingerprint
    with pytest.raises(InputError):
        ReportKey(b"short")


def test_charged_once_before_sending_and_after_restarts(tmp_path):
    cost = Guarantee(2.0, 1e-7)
    assert OwnerReports(tmp_path / "o").charge(b"mechanism", VALUES, cost)
    again = OwnerReports(tmp_path / "o")
    assert not again.charge(b"mechanism", VALUES, cost)
    assert again.charge(b"another", VALUES, cost)
    assert again.spent() == Guarantee(4.0, 2e-7)
    with pytest.raises(BudgetError):
        again.charge(b"mechanism", VALUES + 1, Guarantee(6.5))
    assert again.spent().epsilon == 4.0
    assert len(again.drawings()) == 2
    for file in (tmp_path / "o").iterdir():
        assert file.stat().st_mode & 0o077 == 0


def test_reports_repeat_after_a_restart_in_any_chunks(tmp_path):
    secrets = [OwnerReports(tmp_path).secret(b"m", VALUES) for _ in range(2)]
    assert secrets[0] == secrets[1]
    whole = streams(ReportKey(secrets[0])).words(3)
    part = streams(ReportKey(secrets[1]), ids=row_ids(4, 3), values=VALUES[4:]).words(3)
    assert np.array_equal(part, whole[4:])
    others = [
        OwnerReports(tmp_path).secret(b"n", VALUES),
        OwnerReports(tmp_path).secret(b"m", VALUES + 1),
    ]
    assert len({secrets[0], *others}) == 3


def test_a_lost_key_is_refused_until_forgotten(tmp_path):
    owner = OwnerReports(tmp_path)
    owner.charge(b"m", VALUES, Guarantee(1.0))
    (tmp_path / "report.key").unlink()
    with pytest.raises(KeyFileError, match="forget"):
        owner.charge(b"m", VALUES, Guarantee(1.0))
    owner.forget()
    assert owner.charge(b"m", VALUES, Guarantee(1.0))
    assert owner.spent().epsilon == 2.0
    (tmp_path / "report.key").write_bytes(b"cut")
    with pytest.raises(KeyFileError, match="damaged"):
        owner.key()
