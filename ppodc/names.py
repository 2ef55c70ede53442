"""The form of names and ids: each rule once, for files, messages and options alike.

A name becomes part of paths and of log lines, so it can be neither a path nor a line of its own.
"""

import re
from typing import Annotated

from msgspec import Meta

_NAME = r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"
_UPLOAD_ID = r"\A[0-9a-f]{32}\Z"
_DIGEST = r"\A[0-9a-f]{64}\Z"

Name = Annotated[str, Meta(pattern=_NAME)]  # of a dataset, an owner or an operator
UploadId = Annotated[str, Meta(pattern=_UPLOAD_ID)]
Digest = Annotated[str, Meta(pattern=_DIGEST)]  # SHA-256 of a spec or a seal


def is_name(text: object) -> bool:
    """Whether this may name a dataset or a party."""
    return isinstance(text, str) and re.search(_NAME, text) is not None


def is_upload_id(text: str) -> bool:
    """Whether this has the form of an upload's id."""
    return re.search(_UPLOAD_ID, text) is not None


def is_digest(text: str) -> bool:
    """Whether this has the form of a digest of a spec or a seal."""
    return re.search(_DIGEST, text) is not None
