"""Help texts of all commands reach the reader: Rich takes no word in brackets for markup."""

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.cli.bench import FAMILIES, LOCAL_DP, _load
from ppodc.cli.plain_help import SECTIONS


def texts(command, path):
    """Yield every help text below a command, with the words that lead to it."""
    yield path, command.help or ""
    for parameter in command.params:
        yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""
    for name, below in getattr(command, "commands", {}).items():
        yield from texts(below, f"{path} {name}")


def check(found):
    for path, text in found:
        shown = Text.from_markup(text).plain
        assert shown == text.replace(r"\[", "["), path


def test_no_command_loses_a_word():
    found = dict(texts(typer.main.get_command(app), "ppodc"))
    assert "with \\[privacy]" in found["ppodc privacy explain"]
    check(found.items())


def test_every_command_stands_in_one_section():
    whole = typer.main.get_command(app)
    told = [name for names in SECTIONS.values() for name in names]
    assert whole.list_commands(typer.Context(whole)) == told


def test_flags_show_no_type():
    for words in ([], ["upload"], ["bench", "iteration"], ["dataset", "delete"]):
        text = CliRunner().invoke(app, [*words, "--help"]).output
        assert "--help" in text
        assert "<bool>" not in text, words


@pytest.mark.parametrize("commands", [*FAMILIES.values(), LOCAL_DP])
def test_no_measurement_loses_a_word(commands):
    for name, (place, _) in commands.items():
        check(texts(_load(place), f"ppodc bench {name}"))
