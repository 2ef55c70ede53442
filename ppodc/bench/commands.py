"""The commands `ppodc bench ...`; each measurement is loaded only when it is called."""

from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from ppodc.bench.network_presets import LinkName
from ppodc.cli.options import (
    JsonFile,
    SuiteName,
    SuiteOption,
    err,
    file_to_write,
    write_json,
)
from ppodc.errors import InputError

bench = typer.Typer(
    help="Measurements: each prints a table, writes JSON (--json) and draws (--plot).",
    no_args_is_help=True,
)

POINTS = Path("bench-points.jsonl")
PointsFile = Annotated[
    Path,
    typer.Option("--points", help="Finished points are kept here and not measured again."),
]


def _picture(file: Path | None) -> Path | None:
    if file is not None and file.suffix.lower() != ".png":
        raise typer.BadParameter(f"{file} must end in .png.")
    return file_to_write(file)


PlotFile = Annotated[
    Path | None, typer.Option("--plot", help="Draw a plot here (PNG).", callback=_picture)
]
AnySuite = Annotated[SuiteName | None, typer.Option("--suite", help="One suite; both if left out.")]
Records = Annotated[int, typer.Option("--m", help="Records.")]
Attributes = Annotated[int, typer.Option("--l", help="Attributes.")]
Clusters = Annotated[int, typer.Option("--k", help="Clusters.")]
ManyRecords = Annotated[str, typer.Option("--m", help="Records, such as 2000,10000.")]
ManyAttributes = Annotated[str, typer.Option("--l", help="Attributes, such as 5,10.")]
ManyClusters = Annotated[str, typer.Option("--k", help="Clusters, such as 2,4,8.")]
Iterations = Annotated[int, typer.Option(min=1, help="Iterations of the shares suite.")]
KeyBits = Annotated[
    int,
    typer.Option(help="Paillier key: 2048 or 3072 bits; less to compare with published figures."),
]
Few = Annotated[
    int, typer.Option(min=1, help="Records of the paillier suite, extrapolated to all m.")
]


class Measurement(Protocol):
    """A module that shows and draws what it has measured."""

    def show(self, result: dict[str, Any]) -> None: ...
    def plot(self, result: dict[str, Any], file: Path) -> None: ...


def deliver(
    what: Measurement, result: dict[str, Any], json_file: Path | None, plot: Path | None
) -> None:
    """The one look of all measurements: table, JSON, plot."""
    what.show(result)
    write_json(json_file, result)
    if plot is not None:
        what.plot(result, plot)
        err.print(f"written: {plot}")


def numbers(text: str) -> list[int]:
    """What a list such as "2,4,8" means, in order and each once."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{text!r} is not a list of whole numbers such as 2,4,8.") from None
    if min(found) < 1:
        raise InputError(f"{text!r}: all numbers must be at least 1.")
    return sorted(set(found))


def suites(chosen: SuiteName | None) -> list[str]:
    return [chosen.value] if chosen is not None else [suite.value for suite in SuiteName]


def warn_key(key_bits: int) -> None:
    if key_bits < 2048:
        err.print(f"[yellow]A key of {key_bits} bits is for comparison with published figures "
                  "only; it does not protect data.")  # fmt: skip


@bench.command("paillier")
def bench_paillier_command(
    key_bits: KeyBits = 2048,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 30,
    json_file: JsonFile = None,
) -> None:
    """Encrypt, decrypt, randomise, multiply by plain and add, side by side with `phe`."""
    from ppodc.bench import figure, paillier_beside_phe

    result = paillier_beside_phe.run(key_bits, seconds)
    paillier_beside_phe.show(result)
    write_json(json_file, {**result, "machine": figure.machine()})


@bench.command("primitives")
def bench_primitives_command(
    suite: AnySuite = None,
    key_bits: KeyBits = 2048,
    m: Annotated[int, typer.Option(help="Records of the job (fixes the widths).")] = 6000,
    l: Attributes = 10,
    k: Clusters = 4,
    records: Annotated[
        int, typer.Option(min=1, help="Records the paillier suite measures over.")
    ] = 24,
    points: PointsFile = POINTS,
    json_file: JsonFile = None,
    plot: PlotFile = None,
) -> None:
    """Table 5.3: SMP, SSED_OP, SBD, SMIN_k per invocation, both suites, with counts."""
    from ppodc.bench import primitives
    from ppodc.bench.points import Points

    warn_key(key_bits)
    result = primitives.run(
        suites(suite), m=m, l=l, k=k, key_bits=key_bits, records=records, points=Points(points)
    )
    deliver(primitives, result, json_file, plot)


@bench.command("iteration")
def bench_iteration_command(
    suite: SuiteOption = SuiteName.SHARES,
    m: Records = 10_000,
    l: Attributes = 10,
    k: Clusters = 4,
    pairs: Annotated[int, typer.Option(help="Worker pairs.")] = 1,
    iterations: Annotated[int, typer.Option(help="Iterations to measure over.")] = 5,
    link: Annotated[
        LinkName | None, typer.Option(help="Imitate what lies between the clouds; else loopback.")
    ] = None,
    gbit: Annotated[float | None, typer.Option(help="Gbit/s of the link, each direction.")] = None,
    latency_ms: Annotated[float | None, typer.Option(help="Its one-way latency.")] = None,
    key_bits: KeyBits = 2048,
    json_file: JsonFile = None,
) -> None:
    """One iteration between two processes: offline, online, bytes, rounds, memory, by step."""
    from ppodc.bench import figure, iteration, network_presets

    if link is None and (gbit is not None or latency_ms is not None):
        raise InputError("--gbit and --latency-ms change a --link; name one.")
    over = None if link is None else network_presets.link(link, gbit_s=gbit, one_way_ms=latency_ms)

    with err.status("measuring ...") as status:
        result = iteration.run(
            suite.value,
            m,
            l,
            k,
            pairs,
            iterations,
            link=over,
            key_bits=key_bits,
            tell=lambda what: status.update(f"measuring: {what}"),
        )
    iteration.show(result)
    write_json(json_file, {**result, "machine": figure.machine()})


@bench.command("sweep")
def bench_sweep_command(
    suite: AnySuite = None,
    m: ManyRecords = "2000,4000,6000,8000,10000",
    k: ManyClusters = "2,4,6,8",
    l: ManyAttributes = "5,10,15,20",
    key_bits: KeyBits = 2048,
    records: Few = 8,
    iterations: Iterations = 3,
    points: PointsFile = POINTS,
    json_file: JsonFile = None,
    plot: PlotFile = None,
) -> None:
    """Figure 5.3: seconds per iteration over m, k and l."""
    from ppodc.bench import sweep
    from ppodc.bench.points import Points

    warn_key(key_bits)
    result = sweep.run(
        numbers(m),
        numbers(k),
        numbers(l),
        suites(suite),
        key_bits=key_bits,
        records=records,
        iterations=iterations,
        points=Points(points),
    )
    deliver(sweep, result, json_file, plot)


@bench.command("breakdown")
def bench_breakdown_command(
    suite: AnySuite = None,
    k: ManyClusters = "2,3,4,5,6,7,8",
    m: Records = 6000,
    l: Attributes = 10,
    key_bits: KeyBits = 2048,
    records: Few = 8,
    iterations: Iterations = 3,
    points: PointsFile = POINTS,
    json_file: JsonFile = None,
    plot: PlotFile = None,
) -> None:
    """Figure 5.4: what part of an iteration each primitive takes, over k."""
    from ppodc.bench import breakdown
    from ppodc.bench.points import Points

    warn_key(key_bits)
    result = breakdown.run(
        numbers(k),
        suites(suite),
        m=m,
        l=l,
        key_bits=key_bits,
        records=records,
        iterations=iterations,
        points=Points(points),
    )
    deliver(breakdown, result, json_file, plot)


@bench.command("modes")
def bench_modes_command(
    m: ManyRecords = "2000,4000,6000,8000,10000",
    l: Attributes = 10,
    k: Clusters = 4,
    key_bits: KeyBits = 2048,
    records: Few = 16,
    points: PointsFile = POINTS,
    json_file: JsonFile = None,
    plot: PlotFile = None,
) -> None:
    """Figure 5.5: the paillier suite online + offline, online and pipelined, over m."""
    from ppodc.bench import modes
    from ppodc.bench.points import Points

    warn_key(key_bits)
    result = modes.run(
        numbers(m), l=l, k=k, key_bits=key_bits, records=records, points=Points(points)
    )
    deliver(modes, result, json_file, plot)
