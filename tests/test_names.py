"""One rule for names and ids, for options and for messages."""

import msgspec
import pytest

from ppodc.names import Digest, Name, UploadId, is_name, is_upload_id

NAMES = {
    "a": True,
    "Clinic-2.b_c": True,
    "x" * 64: True,
    "x" * 65: False,
    "": False,
    ".hidden": False,
    "../up": False,
    "a b": False,
    "a\n": False,
    "é": False,
}
UPLOAD_IDS = {
    "0123456789abcdef" * 2: True,
    "0" * 31: False,
    "A" * 32: False,
    "0" * 32 + "\n": False,
}


def fits(text: str, kind: object) -> bool:
    try:
        msgspec.convert(text, kind)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize(("text", "good"), NAMES.items())
def test_names(text: str, good: bool) -> None:
    assert is_name(text) == fits(text, Name) == good


@pytest.mark.parametrize(("text", "good"), UPLOAD_IDS.items())
def test_upload_ids(text: str, good: bool) -> None:
    assert is_upload_id(text) == fits(text, UploadId) == good


def test_what_is_no_text_is_no_name() -> None:
    assert not is_name(7)
    assert not fits("0" * 63, Digest)
