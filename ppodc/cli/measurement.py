"""How a line of a table of measurements becomes a command of `ppodc bench`, and what many take.

A measurement is a module of `ppodc.bench` with `run(...)`, which takes the options of its line and
gives a document, and with `draw(document, file)` if it draws. The module is loaded only when its
command is called. All commands show the document's tables, and write it as JSON if asked to.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from ppodc.bench.network_presets import LinkName
from ppodc.cli.options import JsonFile, SuiteOption, err, png_to_write, write_json
from ppodc.cli.written_values import numbers
from ppodc.kmeans import suites


def parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """What a user may choose, as typer takes it."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def choice(name: str, kind: Any, default: Any, text: str, **limits: Any) -> inspect.Parameter:
    return parameter(name, kind, typer.Option(default, help=text, **limits))


def optional(name: str, kind: Any, text: str) -> inspect.Parameter:
    return choice(name, kind | None, None, text)


def parsed(
    name: str, parser: Callable[[str], Any], default: str | None, text: str
) -> inspect.Parameter:
    """An option that is written as text and means something else."""
    return choice(name, Any, default, text, parser=parser, metavar="TEXT")


def records(default: int = 10_000, text: str = "Records.") -> inspect.Parameter:
    return choice("m", int, default, text)


def many(**defaults: str) -> list[inspect.Parameter]:
    """Lists of records m, attributes l, clusters k."""
    examples = {"m": "Records, such as 2000,10000.", "l": "Attributes, such as 5,10."}
    examples["k"] = "Clusters, such as 2,4,8."
    return [parsed(name, numbers, default, examples[name]) for name, default in defaults.items()]


L = choice("l", int, 10, "Attributes.")
K = choice("k", int, 4, "Clusters.")
SHAPE = (records(), L, K)
PAIRS = choice("pairs", int, 1, "Worker pairs.", min=1)
SUITE = parameter("suite", SuiteOption, suites.DEFAULT)
KEYS_TEXT = "Paillier keys: 1,024 bits as published, 2,048 as it should be."
MANY_KEYS = parsed("key_bits", numbers, "1024,2048", KEYS_TEXT)
IMITATED_LINK = (
    optional("link", LinkName, "Imitate what lies between the clouds; else loopback."),
    optional("gbit", float, "Gbit/s of the link, each direction."),
    optional("latency_ms", float, "Its one-way latency."),
)
POINTS_TEXT = "Finished points are kept here and not measured again."
POINTS = choice("points", Path, "bench-points.jsonl", POINTS_TEXT)
JSON = parameter("json_file", JsonFile, None)
PLOT = choice("plot", Path | None, None, "Draw a plot here (PNG).", callback=png_to_write)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A command; `points` if it keeps finished ones, `draws` if it can plot."""

    name: str
    help: str
    choices: Sequence[inspect.Parameter]
    points: bool = True
    draws: bool = True
    module: str = ""  # if it is not named like the command
    given: Callable[[], dict[str, Any]] = dict  # what `run` takes besides the options

    def command(self) -> Callable[..., None]:
        """What typer calls: its parameters are this measurement's options."""
        parameters = [*self.choices, *[POINTS] * self.points, JSON, *[PLOT] * self.draws]

        def command(**values: Any) -> None:
            _measure(self, values)

        command.__doc__ = self.help
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        vars(command)["__signature__"] = inspect.Signature(parameters)
        return command


def _measure(measurement: Measurement, values: dict[str, Any]) -> None:
    """Run it; then the one look of all measurements: JSON, tables, plot."""
    from ppodc.bench.document import show
    from ppodc.bench.points import Points

    json_file, picture = values.pop("json_file"), values.pop("plot", None)
    values = {n: v.value if isinstance(v, Enum) else v for n, v in values.items()}
    if measurement.points:
        values["points"] = Points(values["points"])
    _warn_of_key(values.get("key_bits"))
    module = import_module(f"ppodc.bench.{measurement.module or measurement.name}")
    document = module.run(**values, **measurement.given())
    write_json(json_file, document)  # first: the screen may be a pipe that nobody reads to the end
    show(document)
    if picture is not None:
        module.draw(document, picture)
        err.print(f"written: {picture}", markup=False)


def _warn_of_key(bits: int | Sequence[int] | None) -> None:
    if isinstance(bits, int) and bits < 2048:
        why = "is for comparison with published figures only; it does not protect data."
        err.print(f"[yellow]A key of {bits} bits {why}")
