"""The bodies of what owners and operators ask of a cloud's gateway, and of its answers."""

from typing import Annotated

import msgspec

from ppodc.records.names import UploadId
from ppodc.records.sharing import SEED_BYTES
from ppodc.service.job_state import JobState
from ppodc.transport.wire import Body

PAGE = 100  # entries of a list in one reply; a wire header holds them

Natural = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Text = Annotated[str, msgspec.Meta(max_length=256)]


class Named(Body, frozen=True):
    """A dataset by its name."""

    dataset: Text


class DatasetEntry(Body, frozen=True):
    """A dataset; uploads and rows are the caller's own, or everyone's for an operator."""

    name: Text
    digest: Text
    state: JobState
    uploads: int
    rows: int


class DatasetsAsk(Body, frozen=True):
    """Datasets by name, behind this one."""

    after: Text = ""


class DatasetList(Body, frozen=True):
    datasets: tuple[DatasetEntry, ...]


class SpecText(Body, frozen=True):
    """A spec in canonical form."""

    spec: bytes


class Begin(Body, frozen=True):
    """Announces an upload under the spec that the owner has checked."""

    dataset: Text
    spec_digest: Text
    upload_id: UploadId
    rows: Natural


class UploadRef(Body, frozen=True):
    upload_id: UploadId


class ChunkPlace(Body, frozen=True):
    """Where the rows in the array belong."""

    upload_id: UploadId
    first_row: Natural


class Seed(Body, frozen=True):
    """The seed of cloud 2's share; it stands in no repr."""

    upload_id: UploadId
    seed: Annotated[bytes, msgspec.Meta(min_length=SEED_BYTES, max_length=SEED_BYTES)]

    def __repr__(self) -> str:
        return f"Seed(upload_id={self.upload_id!r})"


class UploadState(Body, frozen=True):
    """How far an upload is: missing rows as (first, number of rows)."""

    known: bool
    committed: bool = False
    missing: tuple[tuple[int, int], ...] = ()  # the first few; ask again after filling them


class ResultReply(Body, frozen=True):
    """Where the job is and, once `ready`, this cloud's half with the values in the array."""

    state: JobState
    iteration: int
    message: str
    ready: bool
    n_iter: int = 0
    converged: bool = False
    modulus: bytes = b""


class LabelsAsk(Body, frozen=True):
    dataset: Text
    upload_id: UploadId


class LabelsReply(Body, frozen=True):
    """This cloud's half of the labels of one upload; the values are in the array."""

    modulus: bytes


class UploadsAsk(Body, frozen=True):
    """Uploads in order of arrival, without the first `skip`."""

    dataset: Text
    skip: Natural = 0


class UploadEntry(Body, frozen=True):
    """`sealed`: among the records of the job."""

    upload_id: UploadId
    owner: Text
    rows: int
    committed: bool
    sealed: bool


class UploadList(Body, frozen=True):
    uploads: tuple[UploadEntry, ...]


class StatusReply(Body, frozen=True):
    """For operators: how far the job is, and how much is committed."""

    digest: Text
    state: JobState
    iteration: int
    suite: str
    pairs: int
    message: str
    uploads: int
    rows: int


class LedgerAsk(Body, frozen=True):
    after: Natural = 0


class LedgerLine(Body, frozen=True):
    number: int
    time: str
    event: str
    dataset: str
    detail: str
    previous: str
    hash: str


class LedgerReply(Body, frozen=True):
    """At most PAGE; ask again after the last number for more."""

    entries: tuple[LedgerLine, ...]
