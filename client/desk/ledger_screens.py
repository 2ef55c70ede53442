"""The ledgers of both clouds as pages; the last head is noted and compared."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.routing import BaseRoute

from client.desk.budget_view import budget_of
from client.desk.ledger_words import routine, sentence
from client.desk.pages import Pages
from client.desk.screens import Visit, download, route
from client.releases import Release
from ppodc.errors import InputError, PpodcError
from ppodc.files import private_folder, write_private
from ppodc.service.config import OwnerConfig
from ppodc.service.ledger_entries import Entry, check_noted, verify

_SHOWN = 100  # entries on a page


class Noted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last entry of one cloud's ledger that this desk has seen."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True)
class Book:
    """One cloud's ledger: whether its chain holds and still has what was noted."""

    cloud: int
    entries: list[Entry]
    head: str
    broken: str
    noted: int

    @property
    def readable(self) -> int:
        return sum(not entry.hidden for entry in self.entries)


class LedgerScreens:
    """The ledgers that somebody may read, by cloud."""

    def __init__(
        self,
        pages: Pages,
        read: Callable[[int], list[Entry]],
        heads: Path,
        config: OwnerConfig,
        releases: Callable[[], list[Release]] = list,
    ) -> None:
        self._pages, self._read, self._heads, self._config = pages, read, heads, config
        self._releases = releases
        self._clouds = [1] if config.cloud2 is None else [1, 2]

    def routes(self) -> Sequence[BaseRoute]:
        return [
            route(self._pages, "/ledger", self.ledger),
            route(self._pages, "/ledger.json", self.file),
        ]

    def ledger(self, visit: Visit) -> Response:
        books = self._books()
        told = [entry for book in books for entry in book.entries if not entry.hidden]
        studies = sorted({entry.dataset for entry in told if entry.dataset})
        study = visit.query.get("study", "")
        every = _lines(books, study)
        whole = visit.query.get("all") == "yes"
        lines = [line for line in every if whole or not line["routine"]]
        self._note(books)
        return self._pages.page(
            "ledger.html",
            here="/ledger",
            books=books,
            studies=studies,
            study=study,
            lines=lines[:_SHOWN],
            more=max(0, len(lines) - _SHOWN),
            whole=whole,
            left_out=len(every) - len(lines),
            releases=self._releases(),
            same=_same_story(books, study),
            budget=None if self._config.role == "operator" else budget_of(self._config),
        )

    def file(self, visit: Visit) -> Response:
        books = self._books()
        study = visit.query.get("study", "")
        told = {
            f"cloud{book.cloud}": {
                "entries": [
                    {**msgspec.to_builtins(entry), "detail": json.loads(entry.detail)}
                    for entry in book.entries
                    if not entry.hidden and study in ("", entry.dataset)
                ],
                "length": len(book.entries),
                "head": book.head,
                "broken": book.broken,
            }
            for book in books
        }
        return download(json.dumps(told, indent=2) + "\n", "ledger.json", "application/json")

    def _books(self) -> list[Book]:
        noted, books = self._noted(), []
        for cloud in self._clouds:
            entries = self._read(cloud)
            found = verify(iter(entries))
            broken = "" if found.broken is None else f"Entry {found.broken}: {found.reason}."
            before = noted.get(str(cloud))
            if before is not None and not broken:
                try:
                    check_noted(entries, before.number, before.hash)
                except PpodcError as error:
                    broken = str(error)
            seen = 0 if before is None else before.number
            books.append(Book(cloud, entries, found.head, broken, seen))
        return books

    def _noted(self) -> dict[str, Noted]:
        if not self._heads.exists():
            return {}
        try:
            return msgspec.json.decode(self._heads.read_bytes(), type=dict[str, Noted])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise InputError(
                f"The file of noted seals, {self._heads.name}, is damaged. Without it nobody can "
                "tell whether a ledger was cut off since. Restore it from a copy, or delete it"
            ) from None

    def _note(self, books: list[Book]) -> None:
        """Only what holds is noted: a chain that was cut off stays reported."""
        private_folder(self._heads.parent)
        noted = self._noted()
        for book in books:
            if not book.broken and book.entries:
                noted[str(book.cloud)] = Noted(len(book.entries), book.head)
        write_private(self._heads, msgspec.json.encode(noted))


def _lines(books: list[Book], study: str) -> list[dict[str, Any]]:
    """The entries, the newest first; equal entries of both clouds stand once."""
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    for book in books:
        seen: dict[tuple[str, str, str], int] = {}
        for entry in book.entries:
            if entry.hidden or study not in ("", entry.dataset):
                continue
            detail, learnt = entry.describe()
            what = (entry.event, entry.dataset, detail)
            seen[what] = seen.get(what, 0) + 1
            line = merged.setdefault(
                (*what, str(seen[what])),
                {
                    "time": entry.time,
                    "words": sentence(entry),
                    "event": entry.event,
                    "routine": routine(entry),
                    "study": entry.dataset,
                    "detail": detail,
                    "learnt": learnt,
                    "numbers": {},
                },
            )
            line["numbers"][book.cloud] = entry.number
    return sorted(merged.values(), key=lambda line: line["time"], reverse=True)


def _same_story(books: list[Book], study: str) -> bool | None:
    """Whether every entry about all owners has its counterpart; None: there is one cloud."""
    if len(books) < 2 or any(book.broken for book in books):
        return None
    public = ("dataset created", "dataset sealed", "upload committed")
    told = [
        [
            (entry.event, entry.dataset)
            for entry in book.entries
            if entry.event in public and study in ("", entry.dataset)
        ]
        for book in books
    ]
    return sorted(told[0]) == sorted(told[1])
