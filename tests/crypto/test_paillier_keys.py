import json
import stat
import traceback

import pytest

from ppodc.crypto.paillier import SecretKey, generate, generate_insecure
from ppodc.crypto.paillier_keys import load_public, load_secret, save_public, save_secret
from ppodc.errors import KeyFileError

SECRET = generate_insecure(256)
PUBLIC = SECRET.public


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "key.secret"
    save_secret(path, SECRET)
    return path


@pytest.fixture
def public_file(tmp_path):
    path = tmp_path / "key.public"
    save_public(path, PUBLIC)
    return path


def change(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_secret_key_comes_back(secret_file):
    key = load_secret(secret_file, allow_insecure=True)
    assert (key.p, key.q) == (SECRET.p, SECRET.q)
    assert key.public == PUBLIC
    assert stat.S_IMODE(secret_file.stat().st_mode) == 0o600


def test_a_public_key_comes_back_and_its_file_has_no_secret(public_file):
    assert load_public(public_file, allow_insecure=True) == PUBLIC
    fields = json.loads(public_file.read_text())
    assert set(fields) == {"format", "version", "bits", "fingerprint", "n"}
    assert fields["fingerprint"] == PUBLIC.fingerprint


def test_both_files_carry_the_same_fingerprint(secret_file, public_file):
    files = [json.loads(path.read_text()) for path in (secret_file, public_file)]
    assert files[0]["fingerprint"] == files[1]["fingerprint"]
    assert files[0]["version"] == files[1]["version"] == 1


def test_a_full_size_key_needs_no_permission(tmp_path):
    key = generate(2048)
    save_secret(tmp_path / "s", key)
    save_public(tmp_path / "p", key.public)
    assert load_secret(tmp_path / "s").public == load_public(tmp_path / "p") == key.public


def test_a_short_key_needs_permission(secret_file, public_file):
    with pytest.raises(KeyFileError, match="256 bits"):
        load_secret(secret_file)
    with pytest.raises(KeyFileError, match="256 bits"):
        load_public(public_file)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601])
def test_a_secret_that_others_may_use_is_refused(secret_file, mode):
    secret_file.chmod(mode)
    with pytest.raises(KeyFileError, match=f"chmod 600 {secret_file}"):
        load_secret(secret_file, allow_insecure=True)


def test_files_are_not_overwritten(secret_file, public_file):
    before = secret_file.read_text(), public_file.read_text()
    with pytest.raises(KeyFileError, match="exists"):
        save_secret(secret_file, generate_insecure(256))
    with pytest.raises(KeyFileError, match="exists"):
        save_public(public_file, generate_insecure(256).public)
    assert (secret_file.read_text(), public_file.read_text()) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"p": hex(SECRET.p + 2)},
        {"p": hex(SECRET.q)},
        {"q": "0x7"},
        {"n": hex(PUBLIC.n + 2)},
        {"fingerprint": "0" * 32},
        {"bits": 2048},
        {"p": "secret text"},
        {"p": 12},
        {"p": "-5"},
        {"extra": 1},
        {"format": "ppodc-paillier-public"},
        {"version": "1"},
    ],
)
def test_a_changed_secret_file_is_refused_without_telling_what_it_holds(secret_file, fields):
    change(secret_file, **fields)
    with pytest.raises(KeyFileError) as caught:
        load_secret(secret_file, allow_insecure=True)
    shown = "".join(traceback.format_exception(caught.value))
    assert str(secret_file) in shown
    for value in (SECRET.p.digits(16), SECRET.q.digits(16), str(SECRET.p), "secret text"):
        assert value not in shown


@pytest.mark.parametrize(
    "fields",
    [
        {"n": hex(PUBLIC.n + 2)},
        {"n": "0x10"},
        {"n": ""},
        {"fingerprint": "f" * 32},
        {"bits": 255},
        {"n": hex(2**521 - 1)},
    ],
)
def test_a_changed_public_file_is_refused(public_file, fields):
    change(public_file, **fields)
    with pytest.raises(KeyFileError):
        load_public(public_file, allow_insecure=True)


def test_another_version_is_named(secret_file):
    change(secret_file, version=3)
    with pytest.raises(KeyFileError, match="version 3"):
        load_secret(secret_file, allow_insecure=True)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b" " * 70_000])
def test_what_is_no_key_file_is_refused(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    for load in (load_public, load_secret):
        with pytest.raises(KeyFileError):
            load(path, allow_insecure=True)


def test_a_cut_file_is_refused(secret_file):
    text = secret_file.read_text()
    for length in range(0, len(text) - 2, 40):
        secret_file.write_text(text[:length])
        with pytest.raises(KeyFileError):
            load_secret(secret_file, allow_insecure=True)


def test_missing_files_and_folders_are_told(tmp_path, secret_file, public_file):
    for load in (load_public, load_secret):
        with pytest.raises(KeyFileError, match="No such file"):
            load(tmp_path / "nothing")
    with pytest.raises(KeyFileError, match="No such file"):
        save_secret(tmp_path / "no folder" / "key", SECRET)
    public_file.chmod(0o600)
    with pytest.raises(KeyFileError, match="no secret key"):
        load_secret(public_file, allow_insecure=True)
    with pytest.raises(KeyFileError, match="no public key"):
        load_public(secret_file, allow_insecure=True)


def test_the_factors_of_p_and_q_are_kept_and_checked(tmp_path):
    save_secret(tmp_path / "key", SECRET)
    again = load_secret(tmp_path / "key", allow_insecure=True)
    assert again.strong
    assert again.factors == SECRET.factors
    text = (tmp_path / "key").read_text()
    document = json.loads(text)
    for factors in ([["3"], document["factors"][1]], document["factors"][::-1]):
        (tmp_path / "key").write_text(json.dumps({**document, "factors": factors}))
        with pytest.raises(KeyFileError, match="damaged"):
            load_secret(tmp_path / "key", allow_insecure=True)


def test_a_key_without_its_factors_is_neither_saved_nor_loaded(tmp_path):
    with pytest.raises(KeyFileError, match="factors"):
        save_secret(tmp_path / "key", SecretKey(SECRET.p, SECRET.q))
    save_secret(tmp_path / "key", SECRET)
    document = json.loads((tmp_path / "key").read_text())
    del document["factors"]
    (tmp_path / "key").write_text(json.dumps(document))
    with pytest.raises(KeyFileError, match="damaged"):
        load_secret(tmp_path / "key", allow_insecure=True)
