"""An upload of an owner, and the sealed list of uploads whose records a job works on."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from ppodc.names import Name, UploadId
from ppodc.spec import Spec
from ppodc.transport.wire import Body

Outline = NDArray[np.uint32]
MAX_ROWS = 1 << 40


class Upload(Body, frozen=True):
    """One upload of one owner, as it is kept and as it travels.

    `sealed`: among the records of the job. Its place among them is not told: it would show an
    owner how many rows others have. `removed`: withdrawn by its owner or left out by an operator;
    its data are gone, its id stays taken.
    """

    upload_id: UploadId
    dataset: Name
    owner: Name
    rows: Annotated[int, Meta(ge=0, le=MAX_ROWS)]
    committed: bool
    sealed: bool
    removed: Literal["", "withdrawn", "left out"] = ""
    outline: Annotated[str, Meta(max_length=64)] = ""  # digest of its cells, if it tells any

    @property
    def identity(self) -> tuple[str, str, int, str]:
        """The facts that both clouds must agree on: (id, owner, rows, digest of its cells)."""
        return self.upload_id, self.owner, self.rows, self.outline


@dataclass(frozen=True, slots=True)
class Sealed:
    """The fixed set of records: m rows in the order of the uploads."""

    m: int
    digest: str
    uploads: tuple[Upload, ...]
    outlines: Mapping[str, Outline] = field(default_factory=dict, repr=False)  # by upload

    @property
    def dataset(self) -> str:
        """The dataset of all the uploads."""
        return self.uploads[0].dataset

    @classmethod
    def of(cls, spec: Spec, uploads: Iterable[tuple[str, int, Outline | None]]) -> "Sealed":
        """Seal uploads that no store keeps: (owner, rows, cells if any), in this order."""
        listed, outlines = list[Upload](), dict[str, Outline]()
        for number, (owner, rows, outline) in enumerate(uploads):
            name, digest = f"{number:032x}", "" if outline is None else outline_digest(outline)
            listed.append(Upload(name, spec.name, owner, rows, True, True, "", digest))
            outlines |= {} if outline is None else {name: outline}
        rows = sum(upload.rows for upload in listed)
        return cls(rows, seal_digest(spec.digest, listed), tuple(listed), outlines)

    @property
    def owners(self) -> list[str]:
        """In the order of their first upload; an owner's number is its place."""
        return list(dict.fromkeys(upload.owner for upload in self.uploads))

    def places_of(self, owner: str) -> list[tuple[int, int]]:
        """(first sealed row, rows) of each of an owner's uploads."""
        return [(first, upload.rows) for first, upload in self.places() if upload.owner == owner]

    @property
    def told_apart(self) -> list[str]:
        """The owners, where two or more have records; else none.

        A threshold then counts, for each owner, the records of the others. The records of a single
        owner need no protection from itself.
        """
        with_records = {upload.owner for upload in self.uploads if upload.rows}
        return self.owners if len(with_records) > 1 else []

    def rows_of(self, owner: str) -> int:
        """The number of this owner's rows."""
        return sum(upload.rows for upload in self.uploads if upload.owner == owner)

    def owners_of(self, first: int, rows: int) -> NDArray[np.int64]:
        """Whose the sealed rows from `first` on are: (rows in a row, number of their owner)."""
        numbers = {owner: number for number, owner in enumerate(self.owners)}
        found = [
            (min(at + upload.rows, first + rows) - max(at, first), numbers[upload.owner])
            for at, upload in self.places()
        ]
        return np.array([run for run in found if run[0] > 0], np.int64).reshape(-1, 2)

    def places(self) -> Iterator[tuple[int, Upload]]:
        """Each upload with its first sealed row."""
        first = 0
        for upload in self.uploads:
            yield first, upload
            first += upload.rows


def seal_digest(spec_digest: str, uploads: Iterable[Upload]) -> str:
    """SHA-256 over the spec's digest and the ordered (upload id, rows, any outline), in hex."""
    listed = [
        [upload.upload_id, upload.rows, *([upload.outline] if upload.outline else [])]
        for upload in uploads
    ]
    content = json.dumps([spec_digest, listed], separators=(",", ":"))
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def outline_digest(outline: Outline) -> str:
    """SHA-256 of an outline, in hex."""
    data = np.ascontiguousarray(outline, "<u4").tobytes()
    return hashlib.sha256(f"outline {outline.shape} ".encode() + data).hexdigest()
