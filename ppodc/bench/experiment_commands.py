"""The commands `ppodc bench simulate | kegg | peers | report`; importing this registers them."""

import re
from pathlib import Path
from typing import Annotated

import typer

from ppodc.bench.commands import (
    POINTS,
    Attributes,
    Clusters,
    KeyBits,
    ManyAttributes,
    ManyClusters,
    PlotFile,
    PointsFile,
    Records,
    bench,
    deliver,
    numbers,
    warn_key,
)
from ppodc.bench.network_presets import LinkName
from ppodc.cli.options import JsonFile, SuiteName, SuiteOption, err
from ppodc.errors import InputError


def whole(text: str) -> int:
    """A whole number, also written as 1e6 or 63,608."""
    try:
        value = float(text.replace(",", ""))
        if value == int(value):
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise InputError(f"{text!r} is not a whole number of records such as 63608 or 1e6.")


def duration(text: str) -> float:
    """Seconds, from "3600", "90s", "60min" or "1h"."""
    found = re.fullmatch(r"([0-9.]+) *(s|min|h|d|)", text.strip())
    try:
        value = float(found[1]) if found else 0.0
    except ValueError:
        value = 0.0
    if found is None or value <= 0:
        raise InputError(f"{text!r} is not a time such as 90s, 30min, 1h or 2d.")
    return value * {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}[found[2]]


@bench.command("simulate")
def bench_simulate_command(
    m: Annotated[str, typer.Option(help="Records, up to 1e9.")] = "1e6",
    l: Attributes = 10,
    k: Clusters = 4,
    suite: SuiteOption = SuiteName.SHARES,
    key_bits: KeyBits = 2048,
    pairs: Annotated[
        str, typer.Option(help="Numbers of worker pairs, up to 1024.")
    ] = "1,2,4,8,16,32,64,128,256,512,1024",
    link: Annotated[
        LinkName | None, typer.Option(help="What lies between the clouds; all three if left out.")
    ] = None,
    gbit: Annotated[float | None, typer.Option(help="Gbit/s of each pair and direction.")] = None,
    latency_ms: Annotated[float | None, typer.Option(help="One-way latency.")] = None,
    total_gbit: Annotated[
        float | None, typer.Option(help="Gbit/s of all pairs together, each direction.")
    ] = None,
    usd_core_hour: Annotated[float, typer.Option(help="Price of a core for an hour.")] = 0.05,
    usd_gb: Annotated[
        float | None, typer.Option(help="Price of a GB between the clouds: 0, 0.01, 0.09 by link.")
    ] = None,
    within: Annotated[
        str | None, typer.Option(help="How many pairs finish the job in this time, such as 1h?")
    ] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of the whole job.")] = 20,
    dispatch_ms: Annotated[
        float, typer.Option(min=0, help="Of the master, for each pair and phase (assumed).")
    ] = 2.0,
    points: PointsFile = POINTS,
    json_file: JsonFile = None,
    plot: PlotFile = None,
) -> None:
    """SIMULATION of many pairs, calibrated here: time and money of an iteration and of a job."""
    from ppodc.bench import network_presets, simulate
    from ppodc.bench.points import Points

    warn_key(key_bits)
    job = simulate.Job(whole(m), l, k, suite=suite.value, iterations=iterations, key_bits=key_bits)
    names = [link.value] if link is not None else list(network_presets.LINKS)
    chosen = [
        network_presets.link(
            name, gbit_s=gbit, one_way_ms=latency_ms, usd_per_gb=usd_gb, total_gbit_s=total_gbit
        )
        for name in names
    ]
    result = simulate.run(
        job,
        pairs=numbers(pairs),
        links=chosen,
        prices=simulate.Prices(usd_core_hour),
        within_s=None if within is None else duration(within),
        dispatch_ms=dispatch_ms,
        points=Points(points),
    )
    deliver(simulate, result, json_file, plot)


@bench.command("kegg")
def bench_kegg_command(
    data: Annotated[
        Path | None,
        typer.Argument(help="The data set (.csv or .csv.gz); without it, the stored results."),
    ] = None,
    m: Annotated[
        str | None, typer.Option(help="Records, with all l and k; one at a time if left out.")
    ] = None,
    l: ManyAttributes = "5,10,15,20,27",
    k: ManyClusters = "2,4,6,8",
    pairs: Annotated[int, typer.Option(min=1, help="Worker pairs.")] = 1,
    max_iter: Annotated[int, typer.Option(min=1, help="Most iterations of a job.")] = 100,
    paillier_rows: Annotated[
        str, typer.Option(help="Records that the paillier suite runs; 'none' leaves it out.")
    ] = "8,32",
    key_bits: Annotated[
        str, typer.Option(help="Paillier keys: 1,024 bits as published, 2,048 as it should be.")
    ] = "1024,2048",
    points: PointsFile = POINTS,
    json_file: JsonFile = None,
    plot: PlotFile = None,
) -> None:
    """KEGG to convergence with the shares suite, every iteration compared with plaintext.

    Without --m: m, l and k vary one at a time around 10,000 records, 10 attributes, 4 clusters,
    and all records run with 27 and 10 attributes. With --m: every combination of the lists.
    """
    from ppodc.bench import kegg
    from ppodc.bench.points import Points

    if data is None:
        err.print("results stored with this release; name the data set to measure")
        deliver(kegg, kegg.stored(), json_file, plot)
        return
    shapes = None if m is None else kegg.grid(numbers(m), numbers(l), numbers(k))
    result = kegg.run(
        data,
        shapes,
        points=Points(points),
        pairs=pairs,
        max_iter=max_iter,
        paillier_rows=() if paillier_rows == "none" else numbers(paillier_rows),
        key_bits=numbers(key_bits),
    )
    deliver(kegg, result, json_file, plot)


@bench.command("peers")
def bench_peers_command(
    m: Records = 10_000,
    l: Attributes = 10,
    k: Clusters = 4,
    runs: Annotated[int, typer.Option(min=1, help="Iterations to take the median of.")] = 3,
    python: Annotated[
        Path | None, typer.Option(help="Interpreter that has the package `spu`, if not this one.")
    ] = None,
    points: PointsFile = POINTS,
    json_file: JsonFile = None,
    plot: PlotFile = None,
) -> None:
    """The same iteration in SecretFlow SPU (Cheetah, Semi2k) beside the shares suite."""
    from ppodc.bench import peers
    from ppodc.bench.points import Points

    result = peers.run(m, l, k, runs=runs, python=python, points=Points(points))
    deliver(peers, result, json_file, plot)


@bench.command("report")
def bench_report_command(
    page: Annotated[Path, typer.Argument(help="The page to write.")] = Path("bench-report.html"),
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Everything (hours), or minutes.")
    ] = False,
    kegg: Annotated[
        Path | None, typer.Option(help="KEGG data set, to run that experiment here too.")
    ] = None,
    spu_python: Annotated[
        Path | None, typer.Option(help="Interpreter that has the package `spu`.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Some sections only, such as primitives,simulate.")
    ] = None,
) -> None:
    """Run a set of measurements and write one page: tables, plots, published values, commands.

    What is finished stays in a folder beside the page: repeat the command to go on after an
    interruption, remove the folder to measure anew.
    """
    from ppodc.bench import report

    names = None if only is None else [name.strip() for name in only.split(",")]
    failed = report.run(page, full=full, kegg=kegg, spu_python=spu_python, only=names)
    err.print(f"written: {page}")
    if failed:
        raise typer.Exit(1)
