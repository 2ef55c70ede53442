"""The ledgers of both clouds as pages; the last heads are noted and compared."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.routing import BaseRoute

from client.both_clouds import Clouds
from client.desk.budget_view import budget_of
from client.desk.ledger_words import routine, sentence
from client.desk.pages import Pages
from client.desk.screens import Visit, download, route
from client.ledger_heads import LedgerHeads, LostHead
from client.releases import Release
from ppodc.service.config import OwnerConfig
from ppodc.service.ledger_entries import Entry, verify

_SHOWN = 100  # entries on a page


@dataclass(frozen=True, slots=True)
class Book:
    """One cloud's ledger: whether its chain holds, and what was noted of it before."""

    cloud: int
    entries: list[Entry]
    head: str
    broken: str
    noted: int  # the last entry seen at an earlier visit; 0: none
    lost: list[LostHead]  # entries that were noted and are not there any more

    @property
    def readable(self) -> int:
        return sum(not entry.hidden for entry in self.entries)


class LedgerScreens:
    """The ledgers that somebody may read, by cloud."""

    def __init__(
        self,
        pages: Pages,
        clouds: Callable[[], Clouds],
        config: OwnerConfig,
        releases: Callable[[], list[Release]] = list,
    ) -> None:
        self._pages, self._clouds, self._config = pages, clouds, config
        self._heads, self._releases = LedgerHeads(config), releases

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
                "lost": msgspec.to_builtins(book.lost),
            }
            for book in books
        }
        return download(json.dumps(told, indent=2) + "\n", "ledger.json", "application/json")

    def _books(self) -> list[Book]:
        clouds, books = self._clouds(), []
        noted = {cloud: self._heads.noted(cloud) for cloud in clouds.numbers}
        self._heads.check(clouds)
        lost = self._heads.lost()
        for cloud in clouds.numbers:
            entries = clouds.ledger(cloud)
            found = verify(iter(entries))
            broken = "" if found.broken is None else f"Entry {found.broken}: {found.reason}."
            gone = [head for head in lost if head.cloud == cloud]
            books.append(Book(cloud, entries, found.head, broken, noted[cloud], gone))
        return books


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
    if len(books) < 2 or any(book.broken or book.lost for book in books):
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
