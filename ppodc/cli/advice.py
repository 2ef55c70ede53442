"""`ppodc explain` and `ppodc doctor`: what an error means, and what is wrong on this machine."""

import platform
import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppodc import errors
from ppodc.cli.options import JsonFile, config_option, out, show_table, write_json
from ppodc.errors import OptionError, PpodcError

if TYPE_CHECKING:
    from ppodc.service.config import CloudConfig, OwnerConfig

advice = typer.Typer()
EXITS = {
    "0": "The command did what it says.",
    "1": "A check did not hold: a service is not well, or results differ.",
    "2": "The input, a file or the state of a dataset does not allow it; the message says which.",
    "3": "The other party or the connection is at fault.",
    "130": "You interrupted it with Ctrl-C.",
}
_WHAT_NOW = {
    "access": "Ask the operators whether the spec names your key, and with which name.",
    "budget": "See what was spent with `ppodc budget show`. It cannot be got back.",
    "busy": "Wait for the other process, or end it. `ppodc status NAME` says what runs.",
    "channel": "See whether both clouds answer: `ppodc health`. Then do the same again.",
    "check": "Stop, keep both clouds' logs, and tell the operators. Do not run the job again.",
    "config": "The message names file and key. Correct it there; `ppodc doctor` checks the rest.",
    "disk-full": "Make room. `ppodc dataset list` shows the disk of each dataset.",
    "input": "The message names file, row, column or key. Correct it there and do the same again.",
    "internal": "The log of that service has the reason. Send it to its operator.",
    "job-ended": "Ask the operator of cloud 1; a failed job goes on with `ppodc resume NAME`.",
    "job-failed": "Nothing is lost. `ppodc resume NAME` goes on from the last iteration on disk.",
    "key-file": "Check path and mode of the key files. A lost key: `ppodc owner rotate`.",
    "limit": "Close other programs that use the same key, and try again.",
    "not-found": "`ppodc datasets` (owners) and `ppodc dataset list` (operators) list the names.",
    "option": "`--help` of the command lists its options with what each takes.",
    "protocol": "Both clouds must run the same release. If they do, tell both operators.",
    "refused": "The text is the other party's. Ask its operator.",
    "spec": "Correct the spec. `ppodc sample-spec` prints one for each kind of job.",
    "state": "`ppodc progress NAME` or `ppodc status NAME` says where the dataset stands.",
    "store": "The folder must be this user's own and on a disk that works.",
    "table": "The message names row and column. `ppodc spec NAME` lists columns and bounds.",
    "withdrawn": "Upload the table again; it gets a new id.",
}


@advice.command("explain")
def explain_command(
    code: Annotated[
        str | None, typer.Argument(help="Code of an error, or an exit status. None: list all.")
    ] = None,
) -> None:
    """Explain an error code, as a refusal or the JSON log shows it, or an exit status."""
    known = _codes()
    if code is None:
        show_table(("code", "meaning"), [*known.items(), *EXITS.items()])
        return
    if code not in known and code not in EXITS:
        raise OptionError(f"there is no code {code!r}. All of them: ppodc explain.")
    out.print(known.get(code) or EXITS[code], markup=False)
    if code in _WHAT_NOW:
        out.print(_WHAT_NOW[code], markup=False)


def _codes() -> dict[str, str]:
    """Every code with its meaning, from the errors themselves."""
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    found = {
        str(each.code): (each.__doc__ or "").splitlines()[0]
        for each in classes
        if issubclass(each, PpodcError) and each is not PpodcError and "code" in vars(each)
    }
    refused = (errors.RefusedError.__doc__ or "").splitlines()[0]
    return dict(sorted({**found, "refused": refused}.items()))


@advice.command("doctor")
def doctor_command(
    config: Annotated[
        Path | None,
        config_option("Any party's file; without it this installation alone.", needed=False),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Check the installation, configuration, keys and disk, and that the clouds answer.

    Nothing is changed. Exit status 1: something is wrong.
    """
    rows = _installation()
    if config is not None:
        rows += _party(config)
    show_table(("what", "state", ""), [(what, state, _mark(well)) for what, state, well in rows])
    figures = {what: {"state": state, "well": well} for what, state, well in rows}
    write_json(json_file, figures)
    if any(well is False for *_, well in rows):
        raise typer.Exit(1)


_Row = tuple[str, str, bool | None]  # what, its state, and whether that is well (None: no matter)


def _mark(well: bool | None) -> str:
    return {True: "ok", False: "WRONG", None: ""}[well]


def _installation() -> list[_Row]:
    extras = {"ray": "jobs of a cloud", "numba": "jobs of a cloud", "pyarrow": "Parquet",
              "sklearn": "estimators", "starlette": "the desk", "matplotlib": "plots"}  # fmt: skip
    missing = [f"{name} ({use})" for name, use in extras.items() if find_spec(name) is None]
    return [
        ("release", f"ppodc {version('ppodc')}, Python {platform.python_version()}", None),
        ("optional packages", f"not installed: {', '.join(missing)}" if missing else "all", None),
    ]


def _party(file: Path) -> list[_Row]:
    from ppodc.service.config import OwnerConfig, load_any
    from ppodc.service.config_text import digest
    from ppodc.transport.curve_keys import CurveKeys

    try:
        loaded = load_any(file)
    except PpodcError as error:
        return [("configuration", str(error), False)]
    rows: list[_Row] = [("configuration", f"{loaded.role}, digest {digest(loaded)[:16]}", True)]
    try:
        CurveKeys.load(loaded.key)
        rows.append(("key", str(loaded.key), True))
    except PpodcError as error:
        return [*rows, ("key", str(error), False)]
    return rows + (_caller(loaded) if isinstance(loaded, OwnerConfig) else _cloud(file, loaded))


def _caller(config: "OwnerConfig") -> list[_Row]:
    from msgspec import structs

    from client.both_clouds import Clouds

    rows: list[_Row] = []
    with Clouds.connect(structs.replace(config, timeout=3.0)) as clouds:
        for number in clouds.numbers:
            try:
                known = clouds.known_as(number)
            except PpodcError as error:
                rows.append((f"cloud {number}", str(error), False))
                continue
            same = known == (config.role, config.name)
            state = f"knows you as {known[0]} {known[1]}"
            if not same:
                state += f"; your file says {config.role} {config.name}. Correct name or key there"
            rows.append((f"cloud {number}", state, same))
    return rows


def _cloud(file: Path, config: "CloudConfig") -> list[_Row]:
    from ppodc.service.admitted import callers
    from ppodc.service.health import ask

    where: Any = next(each for each in (config.store, *config.store.parents) if each.exists())
    free = shutil.disk_usage(where).free
    rows: list[_Row] = [
        ("disk", f"{free >> 20} MB free at {where}", free > 1 << 30),
        ("callers", f"{len(callers(file, config))} keys are admitted", None),
    ]
    if not config.health:
        return [*rows, ("service", "not asked: the configuration names no health address", None)]
    try:
        report = ask(config.health)
    except PpodcError as error:
        return [*rows, ("service", str(error), False)]
    return [
        *rows,
        *((f"service, {name}", told, told == "ok") for name, told in report.checks.items()),
    ]
