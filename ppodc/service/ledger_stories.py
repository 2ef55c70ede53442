"""Ledgers read by people: a summary by dataset, and whether both clouds tell the same story.

A step of a job, an upload and a deletion are written down by both clouds. An entry that one cloud
has and the other has not is a question for their operators: a cloud was restored from an older
copy, an upload or a deletion was interrupted, or a cloud leaves something out.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ppodc.service.ledger_entries import CHANGED, Entry

# The parts of an entry that both clouds must tell alike, by event; other events are one cloud's.
_ALIKE: dict[str, tuple[str, ...]] = {
    "dataset created": ("spec",),
    "dataset deleted": ("spec",),
    "dataset sealed": ("seal", "rows"),
    "seal undone": (),
    "upload committed": ("upload", "owner", "rows"),
    "upload withdrawn": ("upload", "owner"),
    "upload left out": ("upload", "owner"),
    "reveal begun": ("iteration", "step"),
    "key replaced": ("party", "old_key", "new_key"),
}
_ALIKE_ENDINGS: dict[str, tuple[str, ...]] = {
    "revealed": ("iteration", "stop"),
    "half stored": ("facts", "rows"),
    "half given": ("owner", "upload"),
}


def shown_time(entry: Entry) -> str:
    """The time of an entry with its zone, to the second."""
    moment, _, zone = entry.time.partition("+")
    return f"{moment[:19].replace('T', ' ')} {'UTC' if zone in ('', '00:00') else '+' + zone}"


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """All entries of one event in one dataset."""

    dataset: str
    event: str
    count: int
    first: str
    last: str
    learnt: str


def summary(entries: Iterable[Entry]) -> list[SummaryLine]:
    """The readable entries by dataset and event, in order of their first appearance."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if not entry.hidden:
            groups.setdefault((entry.dataset, entry.event), []).append(entry)
    names = list(dict.fromkeys(dataset for dataset, _ in groups))
    return [
        SummaryLine(
            dataset, event, len(found), shown_time(found[0]), shown_time(found[-1]),
            found[0].describe()[1],
        )
        for name in names
        for (dataset, event), found in groups.items()
        if dataset == name
    ]  # fmt: skip


def told_by_one(first: Sequence[Entry], second: Sequence[Entry]) -> list[tuple[int, Entry]]:
    """(cloud, entry) of every event that this cloud has written down and the other has not.

    An entry by which a cloud says that the other's ledger was changed is always among them.
    """
    stories = {1: _story(first), 2: _story(second)}
    accusing = [
        (cloud, entry)
        for cloud, entries in ((1, first), (2, second))
        for entry in entries
        if entry.event == CHANGED
    ]
    return accusing + [
        (cloud, entry)
        for cloud, other in ((1, 2), (2, 1))
        for what, entry in stories[cloud].items()
        if what not in stories[other]
    ]


def _story(entries: Iterable[Entry]) -> dict[tuple[str, ...], Entry]:
    """The first entry of each thing that both clouds must tell alike."""
    story: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        keys = None if entry.hidden else _alike(entry.event)
        if keys is not None:
            detail = json.loads(entry.detail)
            told = (json.dumps(detail.get(key), sort_keys=True) for key in keys)
            story.setdefault((entry.event, entry.dataset, *told), entry)
    return story


def _alike(event: str) -> tuple[str, ...] | None:
    if event in _ALIKE:
        return _ALIKE[event]
    return next((keys for end, keys in _ALIKE_ENDINGS.items() if event.endswith(end)), None)
