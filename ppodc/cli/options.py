"""Options that several commands share, and where their output goes."""

import csv
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ppodc.errors import OptionError
from ppodc.kmeans.suites import Suite

_WIDEST = 100_000  # characters of a line
out = Console(highlight=False, soft_wrap=True)  # a line stays one where it is piped
err = Console(stderr=True, highlight=False, soft_wrap=True)


SuiteOption = Annotated[
    Suite,
    typer.Option("--suite", help="shares: secret shares, fast. paillier: as published, slow."),
]
JobSuite = Annotated[
    str | None,
    typer.Option(
        "--suite", help="shares: fast, the default. paillier (k-means only): as published, slow."
    ),
]
SafeKeyBits = Annotated[int, typer.Option(help="Paillier key: 2048 or 3072 bits.")]
KeyBits = Annotated[
    int, typer.Option(help="Paillier key: 2048 or 3072 bits. Less only with --insecure-key.")
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure-key",
        help="Allow keys under 2048 bits, to reproduce published figures. Never for real data.",
    ),
]
DeploymentKind = Literal["two-cloud", "local"]


CONFIG_VARIABLE = "PPODC_CONFIG"
CONFIGURATIONS = (
    "owner.toml", "operator.toml", "auditor.toml", "cloud1.toml", "cloud2.toml", "collector.toml",
)  # fmt: skip


def config_option(help_text: str, *, needed: bool = True) -> Any:
    """The option --config of a party's command; without it PPODC_CONFIG, or the folder's only."""
    shown: dict[str, Any] = {"envvar": CONFIG_VARIABLE, "help": help_text}
    if not needed:
        return typer.Option("--config", show_default=False, **shown)

    def missing() -> Path:
        raise OptionError(
            f"which configuration? Give --config FILE: {help_text} Or set {CONFIG_VARIABLE} to its "
            "path, or work in a folder that holds one such file. `ppodc init` and `ppodc "
            "join-deployment` write them."
        )

    return typer.Option("--config", default_factory=missing, show_default=False, **shown)


Config1 = Annotated[Path, config_option("cloud1.toml (or collector.toml) of this deployment.")]
Config2 = Annotated[Path, config_option("cloud2.toml of this deployment.")]
OwnConfig = Annotated[Path, config_option("owner.toml of this owner.")]
OperatorConfig = Annotated[Path, config_option("operator.toml of the operator.")]
AcceptEpsilon = Annotated[
    float | None,
    typer.Option(
        help="Local jobs as_published: what one record really spends, typed out to agree to it."
    ),
]
Dataset = Annotated[str, typer.Argument(help="Name of the dataset.")]
Pairs = Annotated[
    int | None,
    typer.Option(min=1, help="Worker pairs, or a collector's workers; its .toml says else."),
]


@contextmanager
def on_interrupt(state: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C in the block ends the command and says in which state it leaves things."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"interrupted. {state()}", markup=False)
        raise typer.Exit(128 + signal.SIGINT) from None


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table where it fits; else, and where no terminal is, whole lines with tabs between."""
    table = Table(*headings)
    for row in rows:
        table.add_row(*map(escape, row))
    whole = out.measure(table, options=out.options.update(width=_WIDEST)).maximum
    if out.is_terminal and whole <= out.width:
        out.print(table)
    else:
        out.file.writelines("\t".join(row) + "\n" for row in (headings, *rows))


STDOUT = Path("-")


def json_to_write(context: typer.Context, file: Path | None) -> Path | None:
    """As `file_to_write`; "-" is the standard output, and all else then goes to the other."""
    if file != STDOUT:
        return file_to_write(file)
    out.file = sys.stderr
    context.call_on_close(_restore)
    return file


def _restore() -> None:
    out.file = None  # type: ignore[assignment] # whatever the standard output is


def file_to_write(file: Path | None) -> Path | None:
    """Find out now, not after hours of work, whether a file can be written."""
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            raise typer.BadParameter(f"{file.parent} is no folder and cannot be one.") from None
        if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
            raise typer.BadParameter(f"{file} cannot be written.")
    return file


def png_to_write(file: Path | None) -> Path | None:
    """The path of a picture to write, checked before anything runs."""
    if file is not None and file.suffix.lower() != ".png":
        raise typer.BadParameter(f"{file} must end in .png.")
    return file_to_write(file)


OnlyAsked = Annotated[
    bool,
    typer.Option("--only", help="Take the columns of the spec; further ones stay at home."),
]
LeaveOut = Annotated[
    bool,
    typer.Option("--leave-out", help="Leave out rows that lack a value; they are counted."),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        help="Write the figures here as JSON (-: standard output).",
        callback=json_to_write,
    ),
]


def write_json(file: Path | None, result: dict[str, Any]) -> None:
    if file == STDOUT:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    elif file is not None:
        file.write_text(json.dumps(result, indent=2) + "\n")
        err.print(f"written: {file}", markup=False)


def write_csv(file: Path, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with file.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([headings, *rows])
    err.print(f"written: {file}", markup=False)


def write_columns(file: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a CSV file from columns of equal length, by their headings."""
    write_csv(file, list(columns), zip(*columns.values(), strict=True))
