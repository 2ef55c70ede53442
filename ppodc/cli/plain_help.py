"""Help pages of the command: sections by who types what, and flags without a type."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

SECTIONS: Mapping[str, Sequence[str]] = {
    "Begin": ("demo", "desk", "sample-spec", "doctor", "explain", "run-pair", "bench"),
    "Set up": ("init", "key", "split-key", "invite", "join-deployment", "admit", "owner"),
    "Data owners": (
        "spec", "upload", "datasets", "progress", "result", "labels", "withdraw", "releases",
        "budget", "privacy", "link",
    ),
    "Operators": ("dataset",),
    "Clouds and auditors": (
        "cloud1", "cloud2", "run", "resume", "status", "cancel", "prepare", "health", "ledger",
        "audit",
    ),
}  # fmt: skip


class PlainGroup(TyperGroup):
    """A group of commands whose flags show no type: `--only`, not `--only <bool>`."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options of the group itself."""
        return _plain(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, or None."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else plain(command, ctx)


class SectionedGroup(PlainGroup):
    """The whole command, its commands in SECTIONS."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order in which their sections tell them."""
        known = super().list_commands(ctx)
        order = [name for names in SECTIONS.values() for name in names]
        return sorted(known, key=lambda name: order.index(name) if name in order else len(order))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with its section, or None."""
        command = super().get_command(ctx, cmd_name)
        for section, names in SECTIONS.items():
            if cmd_name in names and command is not None:
                command.rich_help_panel = section
        return command


def plain(command: Any, ctx: Any) -> Any:
    """Return the command with flags that show no type."""
    _plain([*command.params, command.get_help_option(ctx)])
    return command


def _plain(parameters: Any) -> Any:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def group(**about: Any) -> typer.Typer:
    """A group of commands; without arguments it shows its help."""
    return typer.Typer(cls=PlainGroup, no_args_is_help=True, **about)
