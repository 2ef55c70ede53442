"""A run of the suite by room: `python -m tests.summary REPORT...` (JUnit's XML)."""

import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree


def room_of(place: str) -> str:
    """tests.kmeans.shares.test_x is of the room kmeans; tests.test_borders of the whole tree."""
    parts = place.split(".")
    return parts[1] if len(parts) > 2 and not parts[1].startswith("test_") else "whole tree"


def count(files: list[Path]) -> tuple[dict[str, Counter[str]], list[str]]:
    """Outcomes by room, and the reasons of tests that did not run."""
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    skipped: Counter[str] = Counter()
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):  # noqa: S314
            found = {child.tag for child in case}
            outcome = "failed" if found & {"failure", "error"} else "passed"
            if "skipped" in found:
                outcome = "skipped"
                skipped[str(case.find("skipped").get("message"))] += 1
            rooms[room_of(case.get("classname", ""))][outcome] += 1
    reasons = [f"{number} skipped: {reason}" for reason, number in sorted(skipped.items())]
    return rooms, reasons


def text(rooms: dict[str, Counter[str]], reasons: list[str]) -> str:
    """A table for people."""
    lines = ["", f"{'tested':24}{'passed':>8}{'failed':>8}{'skipped':>8}"]
    total: Counter[str] = Counter()
    for room, outcomes in sorted(rooms.items()):
        total += outcomes
        lines.append(_line(room, outcomes))
    return "\n".join([*lines, _line("all", total), *reasons])


def _line(name: str, outcomes: Counter[str]) -> str:
    return f"{name:24}" + "".join(f"{outcomes[o]:8}" for o in ("passed", "failed", "skipped"))


if __name__ == "__main__":
    written = [Path(name) for name in sys.argv[1:] if Path(name).exists()]
    sys.stdout.write(text(*count(written)) + "\n")
