"""Entries of a ledger as sentences for people who do not know its words.

An event without a sentence here is shown by its own name and details. Entries that follow from
others by rule are routine: a page leaves them out unless somebody asks for them.
"""

import json
from typing import Any

from client.desk.pages import count, plural
from ppodc.service.ledger_entries import CHANGED, HALF_GIVEN, NOTED, Entry

_STORED = "half stored"
_OUTPUTS = {"result": "the result", "labels": "the labels", "partners": "the numbers of partners"}
_STOP_BITS = ("iterate", "update")  # steps that open one
_STEPS = dict.fromkeys(_STOP_BITS, "whether it is the last")
_STEPS |= {"output": "the result", "labels": "labels"}
_SENTENCES = {
    "dataset created": "The study was made",
    "upload committed": "{owner} sent {rows}",
    "upload withdrawn": "{owner} withdrew its rows",
    "upload left out": "Operator {operator} left out rows of {owner}",
    "upload expired": "Rows of {owner} that never came in whole were deleted",
    "dataset sealed": "The rows were fixed: {rows} of {uploads}",
    "seal undone": "The rows were opened again: the other cloud lacked some of them",
    "job begun": "The computation began (release {release})",
    "records deleted": "The shares of all rows were deleted",
    "dataset deleted": "Operator {operator} deleted the study",
    "reports clustered": "The groups were found",
    "key replaced": "The key of {party} was replaced",
    NOTED: "The cloud noted the last seal of the other book",
    CHANGED: "The other book was changed or cut off",
}


def sentence(entry: Entry) -> str:
    """One sentence about an entry, without its full stop."""
    detail = json.loads(entry.detail)
    if entry.event in _SENTENCES:
        return _SENTENCES[entry.event].format_map(_Words(detail))
    output = entry.event.removesuffix(HALF_GIVEN).removesuffix(_STORED).strip()
    named = _OUTPUTS.get(output, "the links" if output.startswith("links") else output)
    if entry.event.endswith(HALF_GIVEN):
        return f"{detail.get('owner', 'An owner')} fetched this cloud's half of {named}"
    if entry.event.endswith(_STORED):
        return f"The cloud keeps its half of {named}"
    if entry.event == "reveal begun":
        step = _STEPS.get(str(detail.get("step", "")), "a value")
        return f"Round {detail.get('iteration', 0)}: the clouds are about to open {step}"
    if "iteration" in detail and "stop" in detail:
        last = "the last" if detail["stop"] else "not the last"
        return f"Round {detail['iteration']} ended; it was {last}"
    return entry.event[:1].upper() + entry.event[1:]


def routine(entry: Entry) -> bool:
    """Whether the entry reveals nothing by itself, or announces what another entry tells."""
    begun = entry.event == "reveal begun"
    announced = begun and json.loads(entry.detail).get("step") in _STOP_BITS
    return announced or entry.event == NOTED or entry.event.endswith(_STORED)


class _Words(dict[str, Any]):
    """The details of an entry as a sentence names them."""

    def __getitem__(self, key: str) -> str:
        value = self.get(key, "somebody")
        if key in ("rows", "uploads") and isinstance(value, int):
            return plural(value, key.removesuffix("s"))
        return count(value) if isinstance(value, int) else str(value)
