"""The bodies of what owners and operators ask of a cloud's gateway, and of its answers.

Datasets, uploads and ledger entries travel as the records that the store keeps.
"""

from typing import Annotated

import msgspec

from ppodc.names import UploadId
from ppodc.records.sharing import SEED_BYTES
from ppodc.service.job_state import JobState
from ppodc.service.ledger_entries import Entry
from ppodc.service.sealed_uploads import MAX_ROWS, Upload
from ppodc.transport.wire import Body

PAGE = 100  # entries of a list in one reply; a wire header holds them
LEDGER_PAGE = 32  # an entry may be longer
ROWS_PIECE = 1 << 20  # bytes of a row output in one reply

Natural = Annotated[int, msgspec.Meta(ge=0, le=MAX_ROWS)]
Text = Annotated[str, msgspec.Meta(max_length=256)]


class Dataset(Body, frozen=True):
    """A dataset, as it is kept and as it travels.

    `uploads` and `rows` count what is committed: everyone's, or the asking owner's alone.
    `deleted`: its data and its result are gone. `disk`: bytes of its data here, for operators.
    """

    name: str
    digest: str
    state: JobState
    uploads: int
    rows: int
    deleted: bool = False
    disk: int = 0


class Named(Body, frozen=True):
    """A dataset by its name."""

    dataset: Text


class DatasetsAsk(Body, frozen=True):
    """Datasets by name, behind this one."""

    after: Text = ""


class DatasetList(Body, frozen=True):
    """At most PAGE datasets, by name."""

    datasets: tuple[Dataset, ...]


class SpecText(Body, frozen=True):
    """A spec in canonical form."""

    spec: bytes


class Begin(Body, frozen=True):
    """Announces an upload under the spec that the owner has checked."""

    dataset: Text
    spec_digest: Text
    upload_id: UploadId
    rows: Natural


class KnownAs(Body, frozen=True):
    """The role and the name by which a cloud knows the caller's key."""

    role: str
    name: str


class Room(Body, frozen=True):
    """The number of rows that the asking owner may still bring to a dataset."""

    rows: Natural


class UploadRef(Body, frozen=True):
    """An upload by its id."""

    upload_id: UploadId


class Commit(Body, frozen=True):
    """Count an upload. Of an audited dataset: the salt of this part, the digest of the other."""

    upload_id: UploadId
    salt: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    other: Annotated[bytes, msgspec.Meta(max_length=32)] = b""


class ChunkPlace(Body, frozen=True):
    """The place of the array's rows."""

    upload_id: UploadId
    first_row: Natural


class Seed(Body, frozen=True):
    """A cloud's seed of an upload; it stands in no repr."""

    upload_id: UploadId
    seed: Annotated[bytes, msgspec.Meta(min_length=SEED_BYTES, max_length=SEED_BYTES)]

    def __repr__(self) -> str:
        return f"Seed(upload_id={self.upload_id!r})"


class UploadState(Body, frozen=True):
    """The progress of an upload: missing rows as (first, number of rows)."""

    known: bool
    committed: bool = False
    missing: tuple[tuple[int, int], ...] = ()  # the first few; ask again after filling them


class LeaveOut(Body, frozen=True):
    """An operator wants this upload not to count."""

    dataset: Text
    upload_id: UploadId


class ShareName(Body, frozen=True):
    """Which output the half in an array is of, and its modulus."""

    name: Text
    modulus: bytes


class ProgressReply(Body, frozen=True):
    """The state of a job; its iteration is revealed to those with records in it.

    `interrupted`: it is under way, but the process that ran it is gone.
    """

    state: JobState
    iteration: int
    message: str
    deleted: bool
    interrupted: bool = False


class ResultReply(Body, frozen=True):
    """The job's state and, once `ready`, this cloud's halves: one array for each of `halves`."""

    state: JobState
    iteration: int
    message: str
    ready: bool
    session_id: str = ""  # the session in which both clouds made their halves
    facts: bytes = b""  # JSON, the same at both clouds
    halves: tuple[ShareName, ...] = ()
    interrupted: bool = False


class RowsAsk(Body, frozen=True):
    """The asking owner's rows of a row output, for one of its uploads, from this row on."""

    dataset: Text
    upload_id: UploadId
    name: Text
    first_row: Natural = 0


class RowsReply(Body, frozen=True):
    """This cloud's half of a piece of these rows, as stored: the values are in the array."""

    modulus: bytes


class UploadsAsk(Body, frozen=True):
    """Uploads in order of arrival, without the first `skip`."""

    dataset: Text
    skip: Natural = 0


class UploadList(Body, frozen=True):
    """At most PAGE uploads, in order of arrival."""

    uploads: tuple[Upload, ...]


class LedgerAsk(Body, frozen=True):
    """Ledger entries behind this number."""

    after: Natural = 0


class LedgerReply(Body, frozen=True):
    """At most LEDGER_PAGE; ask again after the last number for more.

    What the caller may not read comes as hashes alone.
    """

    entries: tuple[Entry, ...]
