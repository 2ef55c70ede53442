"""Requests of a browser: small forms, and tables that go straight into a private folder.

A table is the raw body of a PUT. It is written as it arrives, into a file that only this user can
read, and never through a form with parts, which servers spool into the system's temporary folder.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request

from ppodc.errors import InputError
from ppodc.files import disk_errors, private_folder

MAX_FORM_BYTES = 1 << 20
_SPARE_BYTES = 64 << 20  # that must stay free on the owner's disk

Form = Mapping[str, list[str]]


async def read_form(request: Request) -> Form:
    """The fields of a posted form; InputError if it is too long or none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("This is not a form of the desk.")
    data = await read_small(request)
    try:
        return parse_qs(data.decode("utf-8"), keep_blank_values=True, max_num_fields=20_000)
    except ValueError as error:  # too many fields, or not UTF-8
        raise InputError("The form cannot be read.") from error


async def read_small(request: Request) -> bytes:
    """The whole body, of a form or a small file; InputError if it is too long."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_FORM_BYTES:
            raise InputError("That is more than the desk takes here.")
    return bytes(data)


async def receive_table(request: Request, path: Path) -> int:
    """Write the body to a private file, and return its length; nothing is left if that fails."""
    private_folder(path.parent)
    try:
        announced = int(request.headers.get("content-length", "0"))
    except ValueError:
        announced = 0
    with disk_errors(path):
        if announced + _SPARE_BYTES > shutil.disk_usage(path.parent).free:
            raise InputError("The disk of your private folder has no room for this file.")
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        size = 0
        try:
            with os.fdopen(descriptor, "wb") as file:
                async for piece in request.stream():
                    size += file.write(piece)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, ClientDisconnect):
                raise InputError("The file did not arrive in full. Choose it again.") from error
            raise
    return size
