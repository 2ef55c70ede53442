"""A split key opens what the whole one opens, and no share opens anything by itself."""

import json
import pickle
import stat

import numpy as np
import pytest

from ppodc.crypto.paillier import Ciphertexts, Tally, generate_insecure
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.paillier_keys import load_secret, load_share, save_share
from ppodc.crypto.randomisers import PowerRandomisers
from ppodc.crypto.split_paillier import KeyShare, split
from ppodc.errors import CiphertextError, InputError, KeyFileError

SECRET = generate_insecure(256)
KEY = SECRET.public
N = int(KEY.n)
FIRST, SECOND = split(SECRET)
CIPHER = Cipher(KEY, PowerRandomisers(KEY))
PLAIN = [0, 1, 2, N - 1, N // 2, 12345678901234567890]


def test_both_shares_open_what_the_key_opens():
    batch = CIPHER.encrypt(PLAIN)
    first, second = Tally(), Tally()
    assert SECOND.opened(FIRST.to_open(batch, first), second) == SECRET.decrypt(batch) == PLAIN
    assert (first.exponentiations, second.exponentiations, second.decryptions) == (6, 6, 6)
    products = CIPHER.power(batch, 3)  # not fresh: whatever r is
    assert SECOND.opened(FIRST.to_open(products)) == [3 * m % N for m in PLAIN]
    assert SECOND.opened(FIRST.to_open(Ciphertexts(KEY, []))) == []


def test_a_share_alone_opens_nothing():
    """A share's power is not the root, and no guess of the other's power makes it one."""
    batch = CIPHER.encrypt(PLAIN)
    for guess in (KeyShare(1, KEY, 0), KeyShare(1, KEY, SECOND.exponent), split(SECRET)[0]):
        with pytest.raises(CiphertextError, match="does not open"):
            SECOND.opened(guess.to_open(batch))
    with pytest.raises(CiphertextError, match="without its part"):
        SECOND.opened(batch.to_array())
    for share in (FIRST, SECOND):
        powers = share.powers(batch)
        ones = [
            c * pow(int(x), N, N * N) % (N * N) for c, x in zip(batch.values, powers, strict=True)
        ]
        assert all(one % N != 1 for one in ones)


def test_either_share_is_as_a_number_drawn_from_n_alone():
    pairs = [split(SECRET) for _ in range(800)]
    for shares in zip(*pairs, strict=True):
        tops = [int(16 * 2 * share.exponent // KEY.n) for share in shares]
        counts = np.bincount(tops, minlength=16)
        assert len(counts) == 16
        # chi-square with 15 degrees of freedom: beyond 65 in fewer than one of 10 million runs
        assert ((counts - 50) ** 2 / 50).sum() < 65


def test_a_wrong_part_and_a_wrong_size_are_refused():
    sent = FIRST.to_open(CIPHER.encrypt([5])).copy()
    sent[0, -1] ^= 1
    with pytest.raises(CiphertextError, match="does not open"):
        SECOND.opened(sent)
    with pytest.raises(CiphertextError, match="another size"):
        SECOND.opened(sent[:, :-1])
    other = generate_insecure(256).public
    with pytest.raises(CiphertextError, match="another key"):
        FIRST.powers(Ciphertexts(other, []))


def test_a_share_shows_nothing_of_itself():
    assert str(int(SECOND.exponent)) not in repr(SECOND)
    with pytest.raises(TypeError):
        pickle.dumps(SECOND)


def test_files_of_shares(tmp_path):
    files = [tmp_path / "1", tmp_path / "2"]
    for file, share in zip(files, (FIRST, SECOND), strict=True):
        save_share(file, share)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first, second = (
        load_share(file, cloud, allow_insecure=True)
        for file, cloud in ((files[0], 1), (files[1], 2))
    )
    assert second.opened(first.to_open(CIPHER.encrypt([7]))) == [7]
    for number in (SECRET.p, SECRET.q):
        assert not any(number.digits(16) in file.read_text() for file in files)
    with pytest.raises(KeyFileError, match="cloud 1's share"):
        load_share(files[0], 2, allow_insecure=True)
    with pytest.raises(KeyFileError, match="no secret key file"):
        load_secret(files[1], allow_insecure=True)
    with pytest.raises(KeyFileError, match="can be broken"):
        load_share(files[0], 1)
    fields = json.loads(files[0].read_text())
    files[0].write_text(json.dumps(fields | {"exponent": f"{N:x}"}))
    with pytest.raises(KeyFileError, match="damaged"):
        load_share(files[0], 1, allow_insecure=True)
    files[1].chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_share(files[1], 2, allow_insecure=True)


def test_an_exponent_out_of_range_is_no_share():
    with pytest.raises(InputError):
        KeyShare(1, KEY, N)
