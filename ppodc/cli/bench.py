"""`ppodc bench ...`: tables of measurements by family; every line of them becomes a command."""

from pathlib import Path
from typing import Annotated

import typer

from ppodc.cli import bench_kmeans, bench_linkage, bench_platform
from ppodc.cli.bench_ldp import ldp
from ppodc.cli.options import err

HELP = """Measurements on this machine; each starts what it needs and prints tables.

Begin with `ppodc bench iteration`: what one iteration costs you, step by step; add `--link wan` for
two data centres. `ppodc bench simulate --m 1e8 --within 1h` says how many worker pairs a job needs
and what it would cost. `ppodc bench report` makes one page of the most important ones.

All write their figures with `--json FILE`, most draw with `--plot FILE`. Finished points are kept
in `bench-points.jsonl` (`--points`): an interrupted command goes on when it is repeated; name
another file to measure anew. Times mean something only if the machine has nothing else to do: the
tables say how many cores others had.
"""
FAMILIES = {
    "k-means: what it costs": bench_kmeans.MEASUREMENTS,
    "Record linkage: what it costs and finds": bench_linkage.MEASUREMENTS,
    "The platform: faults, hostile callers, long use": bench_platform.MEASUREMENTS,
}

bench = typer.Typer(help=HELP, no_args_is_help=True)
for _family, _measurements in FAMILIES.items():
    for _measurement in _measurements:
        bench.command(_measurement.name, rich_help_panel=_family)(_measurement.command())
bench.add_typer(ldp, name="ldp", rich_help_panel="Differential privacy")


@bench.command("report", rich_help_panel="All on one page")
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
    failed = report.run(page, report.sections(full, kegg, spu_python, names))
    err.print(f"written: {page}", markup=False)
    if failed:
        raise typer.Exit(1)
