"""The owner's register of exact releases, kept in its folder: two results must not differ by a few.

Two exact results over the same columns, whose tables differ by one withdrawn record, give that
record to every owner who keeps both. Only the owner of the table can notice. So the register has a
keyed 64-bit tag of every encoded row that went into an exact job, by dataset. A table that would
make the rows of two datasets overlap and differ by fewer rows than the jobs' threshold is refused
before anything is sent, unless the owner names the other dataset. Jobs under differential privacy
are not in it: their budget counts them.

Nothing of it leaves the machine. Without its key a tag says nothing about a row. A row has the same
tag in jobs of all kinds, with a linkage or a join too, whatever its columns are called there and in
which order they stand. Tables under other bounds or steps, or of more or fewer columns, have other
tags: such differences are not noticed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.files import disk_errors, key_file, locked, private_folder, write_private
from ppodc.records.schema import Schema
from ppodc.spec import Spec

_TAG_BYTES = 8
Tags = NDArray[np.uint64]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of a dataset; `upload` is empty until the clouds have it."""

    data: str  # digest of the encoded rows
    tags: bytes
    upload: str


class _Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dataset: str
    spec: str
    columns: str  # with bounds and steps, for people
    bounds: str  # the same without names, in an order of their own
    threshold: int
    began: str
    tables: tuple[_Table, ...]

    @property
    def tags(self) -> Tags:
        return np.frombuffer(b"".join(table.tags for table in self.tables), np.uint64)


@dataclass(frozen=True, slots=True)
class Release:
    """An exact job that this owner gave rows to; `began` is UTC in ISO format."""

    dataset: str
    rows: int
    columns: tuple[str, ...]
    threshold: int
    began: str


class Releases:
    """The register in one folder."""

    def __init__(self, folder: Path, most: int) -> None:
        """At most `most` datasets over the same columns."""
        self._folder, self._most = folder, most

    def listed(self) -> list[Release]:
        """All of them, the oldest first."""
        found = [
            Release(
                each.dataset,
                len(each.tags),
                tuple(msgspec.json.decode(each.columns, type=list[str])),
                each.threshold,
                each.began,
            )
            for each in self._all()
        ]
        return sorted(found, key=lambda release: release.began)

    def begin(
        self,
        spec: Spec,
        values: NDArray[np.int64],
        schema: Schema,
        counted: NDArray[np.int64],
        *,
        replace: bool,
        accepted: Sequence[str],
    ) -> None:
        """Note the rows before they are sent; InputError if they differ too little from others.

        `counted` are those columns of `values` that the result is about, as the schema has them.
        """
        threshold = spec.job.threshold
        if threshold is None:
            return
        private_folder(self._folder)
        with locked(self._folder / "lock"):
            own = self._find(spec) or _Release(
                spec.name, spec.digest, *_columns(schema), threshold[1], _now(), ()
            )
            table = _Table(_digest(values), self._tags(schema, counted).tobytes(), "")
            # a table that the clouds never confirmed does not count unless it is sent again
            kept = tuple(t for t in own.tables if t.upload and t.data != table.data and not replace)
            new = msgspec.structs.replace(own, tables=(*kept, table))
            self._check(new, accepted)
            self._write(new)

    def sent(self, spec: Spec, values: NDArray[np.int64], upload: str) -> None:
        """Note the upload that these rows became."""
        if (own := self._find(spec)) is not None:
            data = _digest(values)
            tables = [
                msgspec.structs.replace(t, upload=upload) if t.data == data else t
                for t in own.tables
            ]
            self._write(msgspec.structs.replace(own, tables=tuple(tables)))

    def withdrawn(self, spec: Spec, upload: str) -> None:
        """Forget the rows of an upload that was taken back before the job ran."""
        if (own := self._find(spec)) is not None:
            kept = tuple(table for table in own.tables if table.upload != upload)
            self._write(msgspec.structs.replace(own, tables=kept))

    def _check(self, new: _Release, accepted: Sequence[str]) -> None:
        others = [
            other
            for other in self._all()
            if other.bounds == new.bounds and other.dataset != new.dataset and other.tables
        ]
        for other in others:
            common = _common(new.tags, other.tags)
            differing = len(new.tags) + len(other.tags) - 2 * common
            least = max(new.threshold, other.threshold)
            if common and 0 < differing < least and other.dataset not in accepted:
                raise InputError(
                    f"your rows in dataset {new.dataset!r} would differ from those in "
                    f"{other.dataset!r} by {differing} of {len(new.tags)}: whoever has both exact "
                    f"results can subtract them and read these rows. Nothing was sent. A spec with "
                    "[privacy] is the answer to repeated studies; to give the rows all the same: "
                    f"--accept-differencing {other.dataset}"
                )
        if len(others) >= self._most and self._find_named(new.dataset) is None:
            raise InputError(
                f"you have given rows over these columns to {len(others)} exact jobs, as many as "
                "max_exact_releases in your configuration allows. Nothing was sent. `ppodc "
                "releases` lists them; each further result tells more about single rows."
            )

    def _tags(self, schema: Schema, counted: NDArray[np.int64]) -> Tags:
        """Of each row the sum of a keyed hash of every value with its bounds and steps."""
        key, tags = key_file(self._folder / "tags.key"), np.zeros(len(counted), np.uint64)
        for bounds, column in zip(_bounds(schema), counted.T, strict=True):
            values, places = np.unique(column, return_inverse=True)
            texts = [f"{value} in {bounds}".encode() for value in values.tolist()]
            hashed = [hashlib.blake2b(t, digest_size=_TAG_BYTES, key=key).digest() for t in texts]
            tags += np.frombuffer(b"".join(hashed), np.uint64)[places.reshape(-1)]
        return np.sort(tags)

    def _all(self) -> list[_Release]:
        if not self._folder.is_dir():
            return []
        return [_read(path) for path in sorted(self._folder.glob("*.json"))]

    def _find(self, spec: Spec) -> _Release | None:
        return self._find_named(spec.name, spec.digest)

    def _find_named(self, dataset: str, digest: str = "") -> _Release | None:
        path = self._path(dataset)
        if not path.exists():
            return None
        found = _read(path)
        return found if digest in ("", found.spec) else None

    def _write(self, release: _Release) -> None:
        write_private(self._path(release.dataset), msgspec.json.encode(release))

    def _path(self, dataset: str) -> Path:
        return self._folder / f"{dataset}.json"


def _read(path: Path) -> _Release:
    with disk_errors(path):
        data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=_Release)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InputError(f"{path} is damaged. Put it back from your copy.") from None


def _common(first: Tags, second: Tags) -> int:
    """The number of rows in both, counted with repetition."""
    names, counts = np.unique(first, return_counts=True)
    others, other_counts = np.unique(second, return_counts=True)
    _, at, other_at = np.intersect1d(names, others, assume_unique=True, return_indices=True)
    return int(np.minimum(counts[at], other_counts[other_at]).sum())


def _columns(schema: Schema) -> tuple[str, str]:
    """Names, bounds and steps; and bounds and steps, which give a row its tag."""
    bounds = _bounds(schema)
    columns = [f"{c.name} {c.low} to {c.high}" for c in schema.columns]
    whole = [*columns, f"{schema.ub} steps"]
    return msgspec.json.encode(whole).decode(), msgspec.json.encode(sorted(bounds)).decode()


def _bounds(schema: Schema) -> list[str]:
    """Of each column, whatever its name is."""
    return [f"{float(c.low)!r} {float(c.high)!r} {schema.ub}" for c in schema.columns]


def _digest(values: NDArray[np.int64]) -> str:
    rows = np.ascontiguousarray(values, "<i8")
    return hashlib.sha256(str(rows.shape).encode() + rows.tobytes()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
