"""Key files: private, whole, and of one pair."""

from pathlib import Path

import pytest

from ppodc.errors import KeyFileError
from ppodc.transport.curve_keys import CurveKeys, check_public, load_public


@pytest.fixture
def stem(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "cloud.one"


def test_saved_keys_load_again(stem: Path) -> None:
    keys = CurveKeys.generate()
    keys.save(stem)
    assert CurveKeys.load(stem) == keys
    assert load_public(stem.with_name("cloud.one.public")) == keys.public
    assert stem.with_name("cloud.one.secret").stat().st_mode & 0o777 == 0o600


def test_the_secret_is_not_in_the_repr() -> None:
    keys = CurveKeys.generate()
    assert keys.secret.decode() not in repr(keys)
    assert repr(keys.secret)[2:-1] not in repr(keys)


def test_keys_are_not_overwritten(stem: Path) -> None:
    keys = CurveKeys.generate()
    keys.save(stem)
    with pytest.raises(KeyFileError, match="exists"):
        CurveKeys.generate().save(stem)
    assert CurveKeys.load(stem) == keys


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_secret_others_can_reach_is_refused_with_advice(stem: Path, mode: int) -> None:
    CurveKeys.generate().save(stem)
    secret = stem.with_name("cloud.one.secret")
    secret.chmod(mode)
    with pytest.raises(KeyFileError, match=f"chmod 600 {secret}"):
        CurveKeys.load(stem)


def test_missing_damaged_and_mixed_files(stem: Path) -> None:
    with pytest.raises(KeyFileError, match="No such file"):
        CurveKeys.load(stem)
    CurveKeys.generate().save(stem)
    secret, public = stem.with_name("cloud.one.secret"), stem.with_name("cloud.one.public")
    public.write_bytes(CurveKeys.generate().public)
    with pytest.raises(KeyFileError, match="not a pair"):
        CurveKeys.load(stem)
    content = secret.read_bytes()
    for damaged in (content[:-2], content * 2, b"~" * 40, b""):
        secret.write_bytes(damaged)
        with pytest.raises(KeyFileError, match="40 characters") as caught:
            CurveKeys.load(stem)
        assert damaged.decode().strip() == "" or damaged.decode() not in str(caught.value)


@pytest.mark.parametrize("key", [b"", b"short", b"~" * 40, bytes(32)])
def test_what_cannot_be_a_public_key(key: bytes) -> None:
    with pytest.raises(KeyFileError):
        check_public(key)


@pytest.mark.parametrize("end", [".secret", ".public"])
def test_a_key_may_be_named_by_either_of_its_files(stem: Path, end: str) -> None:
    keys = CurveKeys.generate()
    keys.save(stem)
    assert CurveKeys.load(stem.with_name(stem.name + end)) == keys


def test_a_secret_is_not_taken_for_a_public_key(stem: Path) -> None:
    CurveKeys.generate().save(stem)
    with pytest.raises(KeyFileError, match=r"is a secret key.*cloud\.one\.public"):
        load_public(stem.with_name("cloud.one.secret"))
