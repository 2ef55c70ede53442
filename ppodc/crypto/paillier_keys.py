"""Paillier keys as files: JSON with a version, the key's size and its fingerprint.

The secret file is its owner's alone (mode 0600), and one that others may read is refused; so is a
file with one cloud's share of a split key. The public part has a file of its own. Loading checks
everything that can be checked: the fingerprint, that n is the product of two primes, that (p-1)/2
and (q-1)/2 are products of large primes, and that the key is long enough. Of a share, which is a
random number, nothing can be checked but that it is a cloud's own and under which key.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any, TypeVar

import gmpy2
import msgspec
from gmpy2 import mpz

from ppodc.crypto.paillier import KEY_BITS, PublicKey, SecretKey
from ppodc.crypto.split_paillier import Holder, KeyShare
from ppodc.errors import InputError, KeyFileError

_VERSION = 1
_MAX_BYTES = 1 << 16


class _PublicFile(
    msgspec.Struct, tag_field="format", tag="ppodc-paillier-public", forbid_unknown_fields=True
):
    version: int
    bits: int
    fingerprint: str
    n: str


class _SecretFile(
    msgspec.Struct, tag_field="format", tag="ppodc-paillier-secret", forbid_unknown_fields=True
):
    version: int
    bits: int
    fingerprint: str
    n: str
    p: str
    q: str
    factors: tuple[list[str], list[str]]


class _ShareFile(
    msgspec.Struct, tag_field="format", tag="ppodc-paillier-share", forbid_unknown_fields=True
):
    version: int
    bits: int
    fingerprint: str
    n: str
    cloud: Holder
    exponent: str


_File = TypeVar("_File", _PublicFile, _SecretFile, _ShareFile)


def save_public(path: str | Path, key: PublicKey) -> None:
    """Write a new public key file; an existing file is never overwritten."""
    _save(path, _PublicFile(_VERSION, key.bits, key.fingerprint, _hex(key.n)), 0o644)


def save_secret(path: str | Path, key: SecretKey) -> None:
    """Write a new secret key file with mode 0600; an existing file is never overwritten."""
    public = key.public
    fields = (public.bits, public.fingerprint, _hex(public.n), _hex(key.p), _hex(key.q))
    if key.factors is None:
        raise KeyFileError("the factors of p-1 and q-1 are unknown. Save a key made by `generate`.")
    factors = ([_hex(f) for f in key.factors[0]], [_hex(f) for f in key.factors[1]])
    _save(path, _SecretFile(_VERSION, *fields, factors), 0o600)


def save_share(path: str | Path, share: KeyShare) -> None:
    """Write a new file of a share with mode 0600; an existing file is never overwritten."""
    public = share.public
    numbers = (_hex(public.n), share.cloud, _hex(share.exponent))
    _save(path, _ShareFile(_VERSION, public.bits, public.fingerprint, *numbers), 0o600)


def load_public(path: str | Path, *, allow_insecure: bool = False) -> PublicKey:
    """The key in a public key file. Keys under 2048 bits load with `allow_insecure` only."""
    file = _load(path, _PublicFile, private=False)
    try:
        key = PublicKey(_number(file.n))
    except (InputError, ValueError):
        raise _damaged(path) from None
    if gmpy2.is_prime(key.n):
        raise _damaged(path)
    _match(path, key, file, allow_insecure)
    return key


def load_secret(path: str | Path, *, allow_insecure: bool = False) -> SecretKey:
    """The key in a secret key file. Keys under 2048 bits load with `allow_insecure` only."""
    file = _load(path, _SecretFile, private=True)
    try:
        of_p, of_q = ([_number(f) for f in of_one] for of_one in file.factors)
        key = SecretKey(_number(file.p), _number(file.q), (of_p, of_q))
        n = _number(file.n)
    except (InputError, ValueError):
        raise _damaged(path) from None
    if key.public.n != n:
        raise _damaged(path)
    _match(path, key.public, file, allow_insecure)
    return key


def load_share(path: str | Path, cloud: Holder, *, allow_insecure: bool = False) -> KeyShare:
    """The share in a file, which must be this cloud's; shorter keys as in `load_secret`."""
    file = _load(path, _ShareFile, private=True)
    try:
        share = KeyShare(file.cloud, PublicKey(_number(file.n)), _number(file.exponent))
    except (InputError, ValueError):
        raise _damaged(path) from None
    _match(path, share.public, file, allow_insecure)
    if share.cloud != cloud:
        raise KeyFileError(
            f"{path} is cloud {share.cloud}'s share of the key, and this is cloud {cloud}. "
            "Give each cloud its own share, and remove it here."
        )
    return share


def _save(path: str | Path, file: msgspec.Struct, mode: int) -> None:
    text = json.dumps(msgspec.to_builtins(file), indent=2) + "\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="ascii") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
    except FileExistsError:
        raise KeyFileError(f"{path} exists already; choose another name or remove it.") from None
    except OSError as error:
        raise KeyFileError(f"Cannot write the key file {path}: {error.strerror}.") from None


def _load(path: str | Path, kind: type[_File], *, private: bool) -> _File:
    try:
        with open(path, "rb") as source:
            mode = stat.S_IMODE(os.fstat(source.fileno()).st_mode)
            if private and mode & 0o077:
                raise KeyFileError(
                    f"Others may use the secret key in {path} (mode {mode:04o});"
                    f" run: chmod 600 {path}"
                )
            data = source.read(_MAX_BYTES + 1)
    except OSError as error:
        raise KeyFileError(f"Cannot read the key file {path}: {error.strerror}.") from None
    _check_version(path, data)
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError:
        # The decoder's own words may quote the file, which holds a secret.
        wanted = "secret" if private else "public"
        raise KeyFileError(f"{path} is no {wanted} key file, or it is damaged.") from None


def _check_version(path: str | Path, data: bytes) -> None:
    if len(data) > _MAX_BYTES:
        raise KeyFileError(f"{path} is too large for a key file.")
    try:
        fields: Any = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise KeyFileError(f"{path} is no key file, or it is damaged.") from None
    version = fields.get("version") if isinstance(fields, dict) else None
    if isinstance(version, int) and version != _VERSION:
        raise KeyFileError(
            f"{path} is a key file of version {version}. This program reads version {_VERSION}. "
            "Make a new key with `ppodc key`."
        )


def _match(
    path: str | Path,
    key: PublicKey,
    file: _PublicFile | _SecretFile | _ShareFile,
    allow_insecure: bool,
) -> None:
    if key.fingerprint != file.fingerprint or key.bits != file.bits:
        raise _damaged(path)
    if key.bits < min(KEY_BITS) and not allow_insecure:
        raise KeyFileError(
            f"{path} has {key.bits} bits, which can be broken; use a key of {min(KEY_BITS)} bits"
            " or more, or allow insecure keys."
        )


def _damaged(path: str | Path) -> KeyFileError:
    return KeyFileError(f"{path} is damaged: its numbers do not make a key. Use your copy of it.")


def _hex(number: mpz) -> str:
    return str(number.digits(16))


def _number(text: str) -> int:
    return int(text, 16)
