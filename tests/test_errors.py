"""Codes of errors are a contract with programs; texts from outside are cleaned."""

import pickle
import re

import pytest

from ppodc import errors
from ppodc.errors import (
    MAX_TEXT,
    PpodcError,
    RefusedError,
    SessionLostError,
    printable,
    without_places,
)

CODES = {
    "PpodcError": "error",
    "InputError": "input",
    "SpecError": "spec",
    "ConfigError": "config",
    "TableError": "table",
    "OptionError": "option",
    "MissingExtraError": "missing-extra",
    "WidthError": "width",
    "KeyFileError": "key-file",
    "BudgetError": "budget",
    "NotFoundError": "not-found",
    "StateError": "state",
    "WithdrawnError": "withdrawn",
    "BusyError": "busy",
    "ProtocolError": "protocol",
    "WireError": "wire",
    "ChannelError": "channel",
    "PeerError": "peer",
    "RefusedError": "refused",
    "AccessError": "access",
    "LimitError": "limit",
    "InternalError": "internal",
    "StoppingError": "stopping",
    "CiphertextError": "ciphertext",
    "StoreError": "store",
    "DiskFullError": "disk-full",
    "PoolError": "pool",
    "CheckError": "check",
    "DeviationError": "deviation",
    "RecordEndsError": "record-ends",
    "RayUnusableError": "ray",
    "SessionLostError": "session-lost",
    "StepFailedError": "step-failed",
    "CancelledError": "cancelled",
    "JobFailedError": "job-failed",
    "JobEndedError": "job-ended",
}


def error_classes() -> list[type]:
    """All classes of the module but its warnings, which have no code."""
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    return [kind for kind in classes if not issubclass(kind, Warning)]


def test_every_error_has_a_code_of_its_own_that_does_not_change():
    classes = error_classes()
    assert {kind.__name__: kind("text").code for kind in classes} == CODES
    assert len(set(CODES.values())) == len(CODES)
    assert all(issubclass(kind, PpodcError) for kind in classes)


def test_the_tree_at_the_top_of_the_module_is_the_tree_of_the_classes():
    parents: list[str] = []
    tree = {}
    for line in errors.__doc__.splitlines():
        found = re.fullmatch(r"    ((?:│   |    )*)(?:[├└]── )?(\w+Error)\b.*", line)
        if found:
            depth = len(found[1]) // 4 + ("── " in line)
            parents[depth:] = [found[2]]
            tree[found[2]] = parents[depth - 1] if depth else "Exception"
    classes = error_classes()
    assert tree == {kind.__name__: kind.__mro__[1].__name__ for kind in classes}


def test_a_refusal_keeps_its_code_between_processes():
    refused = RefusedError("over", SessionLostError.code)
    again = pickle.loads(pickle.dumps(refused))  # noqa: S301 - Ray does so inside one cloud
    assert (str(again), again.code) == ("over", "session-lost")


def test_text_from_outside_is_one_short_line():
    assert printable("a\nb\x1b[2J\u202ec é") == "a?b?[2J?c é"
    assert len(printable("x" * 5000)) == MAX_TEXT


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/srv/c1/store.sqlite is damaged; use your copy.", "(a file) is damaged; use your copy."),
        ("cannot read '/root/x': no", "cannot read '(a file)': no"),
        ("[Errno 2] file:/a/b, (/c) and /d.", "[Errno 2] file:(a file), ((a file)) and (a file)"),
        (
            "use /MON@%uw+{c8!=./{72wo{q++v*Wy}Eu8gpb}?!e",
            "use /MON@%uw+{c8!=./{72wo{q++v*Wy}Eu8gpb}?!e",
        ),
        ("read /srv/ppodc/cloud1/store/pools/slot-0001", "read (a file)"),
        ("1/3 of tcp://127.0.0.1:7401 and/or", "1/3 of tcp://127.0.0.1:7401 and/or"),
    ],
)
def test_no_place_of_this_machine_is_told_to_others(text, told):
    assert without_places(text) == told
