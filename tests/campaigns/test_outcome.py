"""Campaigns as commands: they write their document, and fail if it reports an error."""

import json
import subprocess
import sys

import pytest
import typer

from ppodc.bench import document
from tests.campaigns import faults, fuzz, hostile, soak

CALM = {"failed": 0, "exact": True}
SOUND = {
    faults: {"bad": []},
    fuzz: {**dict.fromkeys(fuzz.COUNTS, 0), "grown_bytes": 1 << 20},
    hostile: {"quiet": CALM, "attacked": CALM},
    soak: {
        "jobs": 2, "exact": 2, "ledgers_hold": 2, "with_strays": 0, "unready": 0,
        "left_at_the_end": {"files": 0}, "rounds": [{"problem": ""}], "growth": [{"leaks": False}],
    },
}  # fmt: skip
ERRORS = [
    (faults, {"bad": [{"seed": 1}]}),
    *((fuzz, {count: 1}) for count in fuzz.COUNTS),
    (fuzz, {"grown_bytes": 1 << 30}),
    (hostile, {"attacked": {**CALM, "failed": 1}}),
    (hostile, {"quiet": {**CALM, "exact": False}}),
    (soak, {"exact": 1}),
    (soak, {"ledgers_hold": 1}),
    (soak, {"with_strays": 1}),
    (soak, {"unready": 1}),
    (soak, {"left_at_the_end": {"files": 1}}),
    (soak, {"rounds": [{"problem": "It failed."}]}),
    (soak, {"growth": [{"leaks": True}]}),
]


def played(monkeypatch, campaign, **changes):
    found = document.make("test", lambda _: [], **SOUND[campaign])
    monkeypatch.setattr(campaign, "run", lambda *_, **__: {**found, **changes})
    campaign.main()


@pytest.mark.parametrize("campaign", SOUND, ids=lambda module: module.__name__)
def test_a_campaign_without_errors_succeeds(campaign, monkeypatch):
    played(monkeypatch, campaign)


@pytest.mark.parametrize(("campaign", "error"), ERRORS, ids=str)
def test_every_error_of_a_campaign_fails_its_command(campaign, error, monkeypatch):
    with pytest.raises(typer.Exit) as ended:
        played(monkeypatch, campaign, **error)
    assert ended.value.exit_code == 1


def test_a_command_writes_its_document(tmp_path):
    file = tmp_path / "faults.json"
    options = ("--schedules", "2", "--seed", "3", "--json", str(file))
    subprocess.run([sys.executable, "-m", "tests.campaigns.faults", *options], check=True)
    found = json.loads(file.read_text())
    assert found.keys() >= {"schema", "machine", "tables", "schedules", "seed", *faults.COUNTS}
    assert (found["bench"], found["schedules"], found["seed"]) == ("faults", 2, 3)
