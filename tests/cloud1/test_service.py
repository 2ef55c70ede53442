"""Cloud 1's service as a process: its log, its health, its end."""

import json
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.local.platform import free_ports
from tests.client.two_gateways import new_deployment
from tests.harness.patience import LONG


@pytest.fixture
def deployment(tmp_path):
    made = new_deployment(tmp_path / "new", ["ann"])
    config = made.party("cloud1").config
    address = f"127.0.0.1:{free_ports(1)[0]}"
    config.write_text(config.read_text().replace('health = ""', f'health = "{address}"'))
    return made


@pytest.fixture
def service(deployment):
    config = str(deployment.party("cloud1").config)
    command = ["cloud1", "serve", "--config", config, "--log", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ppodc.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "listens" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


def test_health_and_a_log_of_json_lines(deployment, service):
    config = ["--config", str(deployment.party("cloud1").config)]
    well = CliRunner().invoke(app, ["health", *config])
    assert well.exit_code == 0
    assert "port for owners" in well.output
    service.send_signal(signal.SIGTERM)
    _, log = service.communicate(timeout=LONG)
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"time", "level", "logger", "message"} == set(lines[0])
    assert any("serving 2 peers" in line["message"] for line in lines)
    down = CliRunner().invoke(app, ["health", *config])
    assert down.exit_code == 1
    assert "the service is down" in down.output


def test_owners_see_which_cloud_does_not_answer(deployment, service):
    owner = deployment.party("ann").config
    for seconds in ("3", "30", str(LONG)):  # all of it is waited for the cloud that is not there
        told = CliRunner().invoke(app, ["health", "--config", str(owner), "--timeout", seconds])
        assert told.exit_code == 1
        first, second = told.output.split("cloud 2", 1)
        if "answers in" in first:
            break
    assert "answers in" in first
    assert "nobody listens" in second


def test_without_an_address_it_says_what_to_do(deployment):
    config = deployment.party("cloud2").config
    told = CliRunner().invoke(app, ["health", "--config", str(config)])
    assert "Add health" in str(told.exception)


def test_the_version_is_told():
    told = CliRunner().invoke(app, ["--version"])
    assert told.exit_code == 0
    assert told.output.startswith("ppodc ")
