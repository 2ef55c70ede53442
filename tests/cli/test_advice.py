"""Codes explained, an installation looked at, JSON on the standard output, completion."""

import json
import os
import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from ppodc import errors
from ppodc.cli import app, default_config
from ppodc.cli.advice import _WHAT_NOW, _codes
from ppodc.errors import InputError
from ppodc.service.deployment import create


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_every_code_of_an_error_is_explained():
    in_code = set(re.findall(r'code = "([a-z-]+)"', Path(errors.__file__).read_text()))
    assert set(_codes()) == in_code - {"error"} | {"refused"}
    assert set(_WHAT_NOW) <= set(_codes())
    for code in _codes():
        assert run("explain", code).exit_code == 0
    assert "ppodc resume" in run("explain", "job-failed").output
    assert "connection" in run("explain", "3").output
    with pytest.raises(InputError, match="no code"):
        CliRunner().invoke(app, ["explain", "nonsense"], catch_exceptions=False)


def test_doctor_names_what_is_wrong(tmp_path):
    made = create(
        tmp_path / "d", 1, cloud1_listen="tcp://127.0.0.1:1", cloud2_listen="tcp://127.0.0.1:2"
    )
    assert run("doctor").exit_code == 0
    cloud = made.party("cloud1").config
    done = run("doctor", "--config", cloud, "--json", "-")
    told = json.loads(done.stdout)
    assert told["key"]["well"]
    assert told["callers"]["state"] == "2 keys are admitted"
    secret = made.party("cloud1").folder / "keys" / "cloud1.secret"
    secret.chmod(0o644)
    done = run("doctor", "--config", cloud)
    assert done.exit_code == 1
    assert "chmod 600" in done.output
    done = run("doctor", "--config", made.party("owner1").config)
    assert done.exit_code == 1
    assert done.output.count("nobody listens") == 2


def test_json_on_standard_output_has_nothing_beside_it(tmp_path):
    done = run("doctor", "--json", "-")
    assert set(json.loads(done.stdout)) == {"release", "optional packages"}
    assert "release" in done.stderr
    assert "release" in run("doctor").stdout, "the next command prints as ever"


def test_completion_can_be_installed():
    assert "--install-completion" in run("--help").output


def test_the_only_configuration_of_a_folder_needs_no_option(tmp_path, monkeypatch):
    monkeypatch.setenv("PPODC_CONFIG", "")  # so that it is as it was afterwards
    monkeypatch.delenv("PPODC_CONFIG")
    default_config(tmp_path)
    assert "PPODC_CONFIG" not in os.environ
    (tmp_path / "owner.toml").touch()
    default_config(tmp_path)
    assert os.environ["PPODC_CONFIG"] == str(tmp_path / "owner.toml")
    monkeypatch.setenv("PPODC_CONFIG", "mine.toml")
    default_config(tmp_path)
    assert os.environ["PPODC_CONFIG"] == "mine.toml", "what is set counts"
    monkeypatch.delenv("PPODC_CONFIG")
    (tmp_path / "operator.toml").touch()
    default_config(tmp_path)
    assert "PPODC_CONFIG" not in os.environ, "two are a question"


def options_named_config(command):
    """Options --config of a command and of those under it."""
    yield from (option for option in command.params if "--config" in option.opts)
    for below in getattr(command, "commands", {}).values():
        yield from options_named_config(below)


def test_every_configuration_may_come_from_the_environment():
    found = list(options_named_config(get_command(app)))
    assert len(found) > 20
    assert {option.envvar for option in found} == {"PPODC_CONFIG"}


@pytest.mark.parametrize(
    "line", [["datasets"], ["run", "clinic"], ["invite", "x.invitation"], ["health"]]
)
def test_without_a_configuration_it_says_where_it_comes_from(line, monkeypatch):
    monkeypatch.setenv("PPODC_CONFIG", "")
    done = run(*line)
    assert "Give --config FILE" in str(done.exception)
    assert "PPODC_CONFIG" in str(done.exception)


def test_a_spec_is_a_file_or_a_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("PPODC_CONFIG", "")
    assert "there is no spec file clinic" in str(run("spec", "clinic").exception)
    monkeypatch.setenv("PPODC_CONFIG", str(tmp_path / "owner.toml"))  # files count all the same
    file = tmp_path / "clinic.toml"
    file.write_text(run("sample-spec").output)
    assert "placeholder" in str(run("spec", file).exception), "it was read"
