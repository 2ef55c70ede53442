"""Reference pages that are made from the code whenever the site is built."""

import ast
import dataclasses
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import msgspec
import typer
from packaging.requirements import Requirement

import ppodc
from cloud2.follower import Follower
from cloud2.service import control_operations
from ppodc import errors, kinds
from ppodc.cli import app
from ppodc.pairs import control_messages
from ppodc.service import config, messages
from ppodc.service import metrics as metrics_module
from ppodc.service.operations import owner_operations
from ppodc.service.store import Store
from ppodc.spec import Spec
from ppodc.transport import wire as wire_module

_EXIT_LINK = (errors.ChannelError, errors.ProtocolError)


def _cell(text: object) -> str:
    """Text that stays in its cell of a table."""
    one_line = " ".join(str(text).split()).replace("|", "\\|")
    return re.sub(r"[<\[\]]", lambda sign: f"\\{sign[0]}", one_line)


def _code(text: object) -> str:
    return f"`{str(text).replace('|', chr(92) + '|')}`" if str(text) else ""


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


# --- commands -----------------------------------------------------------------------------------


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name in sorted(command.commands):
            yield from _leaves(command.commands[name], (*words, name))
    else:
        yield words, command


def _parameters(command: Any) -> str:
    rows = []
    for each in command.params:
        if each.name == "help":
            continue
        is_option = each.param_type_name == "option"
        names = " ".join([*each.opts, *each.secondary_opts]) if is_option else each.name.upper()
        default = "required" if each.required else ""
        if not each.required and each.default not in (None, False, ()) and is_option:
            default = _code(getattr(each.default, "value", each.default))
        rows.append([_code(names), _cell(getattr(each, "help", "") or ""), default])
    return _table(["", "meaning", "default"], rows) if rows else ""


def commands() -> str:
    """Every command with its arguments and options."""
    parts = []
    for words, command in _leaves(typer.main.get_command(app), ("ppodc",)):
        if command.hidden:
            continue
        help_text = inspect.cleandoc(command.help or "").replace("<", "\\<")
        parts += [f"## {' '.join(words)}", help_text, _parameters(command)]
    return "\n\n".join(parts)


# --- files --------------------------------------------------------------------------------------


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return _code(field.default if field.default != "" else '""')
    return "" if field.default_factory is not dataclasses.MISSING else "required"


def spec_keys() -> str:
    """The sample of each kind, and the keys of its job."""
    parts = []
    for name in kinds.ROOMS:
        kind = kinds.named(name)
        job = type(Spec.loads(kind.sample).job)
        rows = [[_code(f.name), _default(f)] for f in dataclasses.fields(job) if f.init]
        parts += [
            f"## {name}",
            f"`ppodc sample-spec --kind {name}` prints this file.",
            f"```toml\n{kind.sample.strip()}\n```",
            f"The fields of such a job, as `Spec.load(file).job` has them in Python "
            f"(`{job.__name__}`):",
            _table(["field", "default"], rows),
        ]
    return "\n\n".join(parts)


def _struct(kind: type[msgspec.Struct]) -> str:
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    rows = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        notes = [m.description for m in get_args(hint)[1:] if getattr(m, "description", None)]
        field = fields[name]
        value = "required" if field.required else ""
        if field.default is not msgspec.NODEFAULT:
            value = _code(field.default if field.default != "" else '""')
        elif field.default_factory is not msgspec.NODEFAULT:
            value = "its defaults"
        rows.append([_code(name), _cell(notes[0] if notes else ""), value])
    return _table(["key", "meaning", "default"], rows)


def configuration_keys() -> str:
    """The keys of every configuration file, and of the tables in them."""
    files = {
        "owner.toml, operator.toml": config.OwnerConfig,
        "cloud1.toml": config.Cloud1Config,
        "cloud2.toml": config.Cloud2Config,
        "collector.toml": config.CollectorConfig,
    }
    tables = {
        "A cloud as others reach it": config.Remote,
        "Quotas": config.Quotas,
    }
    return "\n\n".join(
        part
        for title, kind in {**files, **tables}.items()
        for part in (f"## {title}", (inspect.getdoc(kind) or "").split("\n\n")[0], _struct(kind))
    )


# --- Python, errors, metrics --------------------------------------------------------------------


def python_api() -> str:
    """Every public name, documented by its docstring."""
    parts = []
    for name in ppodc.__all__:
        thing = getattr(ppodc, name)
        if inspect.ismodule(thing):
            kind, options = "automodule", "   :members:\n   :imported-members:"
        elif inspect.isclass(thing):
            kind, options = "autoclass", "   :members:"
        else:
            kind, options = "autofunction", ""
        parts.append(f"## {name}\n\n```{{eval-rst}}\n.. {kind}:: ppodc.{name}\n{options}\n```")
    return "\n\n".join(parts)


def error_codes() -> str:
    """Every error with its code, the exit code of a command, and its meaning."""
    rows = []
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.PpodcError):
            exit_code = 3 if issubclass(kind, _EXIT_LINK) else 2
            meaning = (inspect.getdoc(kind) or "").split("\n\n")[0]
            rows.append(
                [_code(kind("").code), _code(kind.__name__), str(exit_code), _cell(meaning)]
            )
    return _table(["code", "class", "exit", "meaning"], sorted(rows))


def metrics() -> str:
    """Every metric that a service exports, with its labels."""
    tree = ast.parse(Path(metrics_module.__file__).read_text())
    rows = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        texts = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
        if len(texts) == 2 and str(texts[0]).startswith("ppodc_"):
            labels = [ast.literal_eval(k.value) for k in node.keywords if k.arg == "labels"]
            name = texts[0] + ("_total" if node.func.id.startswith("Counter") else "")
            rows.append([_code(name), _cell(texts[1]), ", ".join(labels[0]) if labels else ""])
    return _table(["metric", "meaning", "labels"], sorted(rows))


_CONSTANTS = {
    "ppodc.mpc.lattice.parameters": {
        "DEGREE": "degree N of the ring of products with records",
        "MOST_MODULUS_BITS": "most bits of the modulus q",
    },
    "ppodc.mpc.ot.base_ot": {"COUNT": "base transfers of a session"},
    "ppodc.mpc.ot.leaf_streams": {"DEPTH": "depth of the trees of the transfer extension"},
    "ppodc.mpc.ot.code": {"ROW_BITS": "bits of a row that is hashed"},
    "ppodc.crypto.paillier": {
        "KEY_BITS": "sizes of a Paillier key",
        "FACTOR_BITS": "least bits of the prime factors of (p-1)/2 and (q-1)/2",
    },
    "ppodc.kmeans.job": {
        "MAX_CLUSTERS": "most clusters of a job",
        "MAX_ITERATIONS": "most iterations of a start",
        "MAX_STARTS": "most starts",
    },
    "ppodc.records.schema": {
        "MAX_COLUMNS": "most columns",
        "MAX_VALUE": "largest `ub`",
    },
}


def parameters() -> str:
    """Numbers that security and limits rest on, as the code has them."""
    rows = []
    for place, names in _CONSTANTS.items():
        module = import_module(place)
        for name, meaning in names.items():
            rows.append([meaning, _code(getattr(module, name)), _code(f"{place}.{name}")])
    return _table(["what", "value", "where"], rows)


# --- wire ---------------------------------------------------------------------------------------


def _fields(kind: type[msgspec.Struct]) -> str:
    return ", ".join(_code(field.name) for field in msgspec.structs.fields(kind))


def _bodies(module: Any) -> Iterator[list[str]]:
    for kind in vars(module).values():
        own = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        if own and kind.__module__ == module.__name__:
            told = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
            yield [_code(kind.__name__), _cell(told), _fields(kind)]


def wire() -> str:
    """The header, the calls of both services with their callers, and all bodies."""
    called = [
        *owner_operations(cast(Any, Store)),  # only named, never called
        *control_operations(cast(Any, Follower)),
    ]
    calls = [
        [_code(each.name), ", ".join(sorted(each.roles)), _code(each.request.__name__)]
        for each in called
    ]
    body = ("body", "meaning", "fields")
    header = [
        [_code(name), _code(getattr(hint, "__name__", str(hint)))]
        for name, hint in get_type_hints(wire_module.Header).items()
    ]
    return "\n\n".join(
        [
            "## Header",
            _table(("field", "type"), header),
            "## Calls",
            "Whoever has another role is refused.",
            _table(("call", "who may call", "body"), calls),
            "## Bodies between owners, operators, auditors and a cloud",
            _table(body, _bodies(messages)),
            "## Bodies between the clouds",
            _table(body, _bodies(control_messages)),
        ]
    )


# --- licences -----------------------------------------------------------------------------------


def _needed(name: str, extras: frozenset[str], found: dict[str, metadata.Distribution]) -> None:
    """Add a package and all that it needs here."""
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return  # not of this system
    found[re.sub(r"[-_.]+", "-", name).lower()] = package
    for line in package.requires or ():
        needed = Requirement(line)
        known = re.sub(r"[-_.]+", "-", needed.name).lower() in found
        wanted = not needed.marker or any(
            needed.marker.evaluate({"extra": extra}) for extra in extras | {""}
        )
        if wanted and not known:
            _needed(needed.name, frozenset(needed.extras), found)


def _licence(package: metadata.Distribution) -> str:
    about = package.metadata
    named = about.get("License-Expression") or ""
    if not named:
        classes = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or ()
                   if line.startswith("License :: ")]  # fmt: skip
        named = ", ".join(each for each in classes if each != "OSI Approved")
    first = (about.get("License") or "").strip().splitlines()
    return named or (first[0][:60] if first else "see the package")


def licences() -> str:
    """Every package that `ppodc[all]` brings, with its licence."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    every = [line for name, lines in extras.items() if name not in ("dev", "docs", "bench")
             for line in lines]  # fmt: skip
    found: dict[str, metadata.Distribution] = {}
    for line in (*project["dependencies"], *every):
        needed = Requirement(line)
        if needed.name != "ppodc":
            _needed(needed.name, frozenset(needed.extras), found)
    rows = [[_code(name), package.version, _cell(_licence(package))]
            for name, package in sorted(found.items())]  # fmt: skip
    return _table(["package", "version", "licence"], rows)


# --- measured -----------------------------------------------------------------------------------


def measured(*files: str) -> str:
    """The tables of documents that commands wrote into docs/measured."""
    parts = []
    for name in files:
        text = (Path(__file__).parent / "measured" / name).read_text(encoding="utf-8")
        document = json.loads(text)
        on = document["machine"]
        parts.append(
            f"**`{document['command']}`**, {document['date']}, {on['cores']} cores of "
            f"{on['processor']}, Python {on['python']}, code {on['code']}. "
            f"[All figures](measured/{name})."
        )
        for each in document["tables"]:
            rows = ([_cell(cell) for cell in row] for row in each["rows"])
            parts += [f"{_cell(each['title'])}:", _table(map(_cell, each["columns"]), rows)]
        parts += [_cell(note) for note in document["notes"]]
    return "\n\n".join(parts)


def beside(*cases: str) -> str:
    """Iterations of an earlier release and of this one, measured in turn on one machine."""
    headings = (
        "command", "release", "wall, s", "CPU, s", "MB", "rounds", "memory of a worker, MB",
        "cores that others used",
    )  # fmt: skip
    folder, rows = Path(__file__).parent / "measured" / "beside", []
    for case in cases:
        runs = {
            when: json.loads((folder / f"{case}_{when}.json").read_text(encoding="utf-8"))
            for when in ("before", "now")
        }
        for when, run in runs.items():
            others = sum(each["others"] for each in run["each"]) / len(run["each"])
            rows.append(
                (
                    f"`{runs['now']['command']}`",
                    f"[{when}](measured/beside/{case}_{when}.json)",
                    f"{run['total_s']:.3g}",
                    f"{max(run['cpu_c1_s'], run['cpu_c2_s']):.3g}",
                    f"{run['bytes_c1_to_c2'] / 1e6:.1f}",
                    f"{run['rounds']:.0f}",
                    f"{run['peak_rss_mb']:.0f}",
                    f"{others:.1f}",
                )
            )
    on = runs["now"]
    machine = f"{on['machine']['cores']} cores of {on['machine']['processor']}"
    return f"{on['date']}, {machine}:\n\n{_table(headings, rows)}"


PAGES: dict[str, Callable[..., str]] = {
    "commands": commands,
    "spec_keys": spec_keys,
    "configuration_keys": configuration_keys,
    "python_api": python_api,
    "error_codes": error_codes,
    "metrics": metrics,
    "parameters": parameters,
    "measured": measured,
    "beside": beside,
    "licences": licences,
    "wire": wire,
}
