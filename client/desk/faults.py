"""A fault in three sentences: what happened, whether anything is lost, what to do."""

from dataclasses import dataclass

from ppodc.errors import (
    AccessError,
    BudgetError,
    ChannelError,
    InputError,
    JobEndedError,
    KeyFileError,
    PpodcError,
    ProtocolError,
    RefusedError,
    StoreError,
)

_OFFICE = "If it happens again, call the people who run the study."


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as a page shows it."""

    title: str
    what: str
    lost: str
    todo: str
    status: int = 409


def fault_of(error: PpodcError) -> Fault:
    """The error for people who have no terminal; its own words are kept."""
    for kind, title, lost, todo, status in _FAULTS:
        if isinstance(error, kind):
            return Fault(title, _sentence(str(error)), lost, todo, status)
    return Fault("That did not work", _sentence(str(error)), "Nothing was sent.", _OFFICE, 500)


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


_FAULTS: tuple[tuple[type[PpodcError], str, str, str, int], ...] = (
    (
        ChannelError,
        "A cloud does not answer",
        "Nothing is lost. What was sent before is still there.",
        f"Look again in a few minutes. {_OFFICE}",
        503,
    ),
    (
        ProtocolError,
        "The clouds do not answer as agreed",
        "Nothing is lost. Nothing more was sent.",
        "Call the people who run the study, and read this page to them.",
        502,
    ),
    (
        BudgetError,
        "Your privacy budget does not allow this",
        "Nothing was sent and nothing was charged.",
        "Ask the people who set the limit of your budget.",
        409,
    ),
    (
        JobEndedError,
        "The computation has stopped",
        "Your rows are safe. There is no result.",
        "Ask the people who run the study whether it will go on.",
        409,
    ),
    (
        KeyFileError,
        "Your key cannot be used",
        "Nothing was sent.",
        "Put the key file back from your copy, or ask for help.",
        409,
    ),
    (
        AccessError,
        "This is not yours to see",
        "Nothing was sent.",
        "Ask the people who run the study whether it names your key.",
        403,
    ),
    (
        RefusedError,
        "A cloud has refused this",
        "Nothing is lost. What was sent before is still there.",
        f"Read the reason. {_OFFICE}",
        409,
    ),
    (
        StoreError,
        "The disk cannot be used",
        "Nothing half-written was kept.",
        "Make room or mend the folder, then do the same again.",
        500,
    ),
    (
        InputError,
        "That cannot be used",
        "Nothing was sent.",
        "Correct it and do the same again.",
        400,
    ),
)
