"""`ppodc bench ...`: a table of measurements. A module is loaded when its command is called.

Each command is a function of `ppodc.bench` that takes its options and returns a document. If there
is a function that draws it, the command has `--plot`. All commands show the tables of the document
and write it as JSON on request.
"""

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ppodc.cli.options import JsonFile, err, png_to_write, write_json
from ppodc.cli.plain_help import group, plain

HELP = """Measurements on this machine. Each one starts what it needs and prints tables.

Begin with `ppodc bench iteration`: the cost of one iteration, step by step. Add `--link wan` for
two data centres. `ppodc bench simulate --m 1e8 --within 1h` predicts the number of worker pairs
that a job needs, and its cost. `ppodc bench report` writes one page of the most important ones.

All commands write their figures with `--json FILE`, and most draw with `--plot FILE`. Finished
points are kept in `bench-points.jsonl` (`--points`): an interrupted command continues when it is
repeated. Name another file to measure again. Times mean something only on an idle machine: the
tables report how many cores other programs used.
"""
PlotFile = Annotated[
    Path | None, typer.Option(help="Draw a plot into this file (PNG).", callback=png_to_write)
]

# Command: (module and function of ppodc.bench, help)
KMEANS = {
    "iteration": ("kmeans.iteration:run", "One iteration between two processes, step by step."),
    "start": ("kmeans.start:run", "Choosing the first records by k-means++."),
    "primitives": ("kmeans.primitives:run", "Table 5.3: primitives per invocation, with counts."),
    "sweep": ("kmeans.grids:sweep", "Figure 5.3: seconds per iteration over m, k and l."),
    "breakdown": ("kmeans.grids:breakdown", "Figure 5.4: the share of each primitive, over k."),
    "modes": ("kmeans.grids:modes", "Figure 5.5: modes of the paillier suite, over m."),
    "pairs": ("kmeans.pairs:run", "Figure 5.6: one iteration over worker pairs on Ray."),
    "simulate": ("kmeans.simulate:run", "SIMULATION of many pairs: time and money of a job."),
    "kegg": ("kmeans.kegg:run", "KEGG, a real data set, to convergence."),
    "peers": ("kmeans.peers:run", "The same iteration in SecretFlow SPU."),
}
LINKAGE = {
    "linkage": ("linkage.adult:run", "Pairs that private cells leave to compare, in the clear."),
    "linkage-names": ("linkage.names:run", "The same for names, by embeddings and by lengths."),
    "linkage-pairs": ("linkage.pairs:run", "The cost of comparing two records on shares."),
    "join": ("linkage.join:run", "The cost of joining columns beyond comparing rows."),
    "linkage-texts": ("linkage.texts:run", "Names and mixed fields on shares, over any link."),
    "linkage-peers": ("linkage.peers:run", "FEBRL linked by other tools and on shares."),
    "linkage-paillier": ("linkage.paillier:run", "The published three-party protocol."),
}
PLATFORM = {
    "platform": ("platform:run", "The cost of orchestration, memory, and many owners at once."),
}
LOCAL_DP = {
    "privbv": ("local_dp.privbv:run", "PrivBV and DPBV as published, corrected, and attacked."),
    "ldpseg": ("local_dp.ldpseg:run", "LDPseg on BANK and digits, beside an honest budget."),
    "kmodes": ("local_dp.kmodes:run", "LDPK-modes beside joint cells."),
    "beyond": ("local_dp.beyond:run", "The loss of every method over epsilon."),
    "usable": ("local_dp.usable:run", "Whether results that say they are usable are."),
    "speed": ("local_dp.speed:run", "CPU time of making and counting reports."),
    "clouds": ("local_dp.clouds:run", "An iteration with noise in the two clouds."),
    "peers": ("local_dp.peers:run", "diffprivlib and pure-ldp beside ours."),
}
FAMILIES = {"k-means": KMEANS, "Record linkage": LINKAGE, "The platform": PLATFORM}

bench = group(help=HELP)
ldp = group(help="Clustering under differential privacy: the published systems, ours, and peers.")


def _lazy(place: str) -> type[TyperCommand]:
    """The class of a command that is loaded when it is called or asked for its help."""

    class Lazy(TyperCommand):
        def make_context(
            self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
        ) -> Any:
            return plain(_load(place), parent).make_context(info_name, args, parent, **extra)

    return Lazy


def _load(place: str) -> Any:
    name, _, function = place.partition(":")
    module = import_module(f"ppodc.bench.{name}")
    draw = getattr(module, "draw" if function == "run" else f"draw_{function}", None)
    app = typer.Typer(add_completion=False)
    app.command()(_measured(getattr(module, function), draw))
    return typer.main.get_command(app)


def _measured(
    run: Callable[..., dict[str, Any]], draw: Callable[..., None] | None
) -> Callable[..., None]:
    """A measurement that shows its document, with options for JSON and a plot."""

    @functools.wraps(run)
    def measured(json_file: Path | None, plot: Path | None = None, **values: Any) -> None:
        from ppodc.bench.document import show

        _warn_of_key(values.get("key_bits"))
        document = run(**values)
        write_json(json_file, document)  # before the tables, whose reader may close the pipe
        show(document)
        if draw is not None and plot is not None:
            draw(document, plot)
            err.print(f"written: {plot}", markup=False)

    own, keyword = inspect.signature(run), inspect.Parameter.KEYWORD_ONLY
    outputs = {"json_file": JsonFile, **({} if draw is None else {"plot": PlotFile})}
    more = [inspect.Parameter(n, keyword, default=None, annotation=a) for n, a in outputs.items()]
    vars(measured)["__signature__"] = own.replace(parameters=[*own.parameters.values(), *more])
    return measured


def _warn_of_key(bits: Any) -> None:
    if isinstance(bits, int) and bits < 2048:
        why = "is only for comparison with published figures. It does not protect data."
        err.print(f"[yellow]A key of {bits} bits {why}")


def _add(group: typer.Typer, commands: dict[str, tuple[str, str]], panel: str | None) -> None:
    for name, (place, text) in commands.items():
        group.command(name, cls=_lazy(place), help=text, rich_help_panel=panel)(lambda: None)


for _panel, _commands in FAMILIES.items():
    _add(bench, _commands, _panel)
_add(ldp, LOCAL_DP, None)
bench.add_typer(ldp, name="ldp", rich_help_panel="Differential privacy")


@bench.command("report", rich_help_panel="All on one page")
def bench_report_command(
    page: Annotated[Path, typer.Argument(help="The page to write.")] = Path("bench-report.md"),
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Everything (hours), or minutes.")
    ] = False,
    kegg: Annotated[
        Path | None, typer.Option(help="KEGG data set, to run that experiment here too.")
    ] = None,
    spu_python: Annotated[
        Path | None, typer.Option(help="Interpreter that has the package `spu`.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of data sets, for linkage (adult/adult.data) and local privacy."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Some sections only, such as primitives,simulate.")
    ] = None,
) -> None:
    """Run a set of measurements and write one page: tables, plots, published values, commands.

    Finished sections are kept in a folder beside the page. Repeat the command to continue after an
    interruption. Remove the folder to measure again.
    """
    from ppodc.bench import report

    names = None if only is None else [name.strip() for name in only.split(",")]
    failed = report.run(page, report.sections(full, kegg, spu_python, names, data))
    err.print(f"written: {page}", markup=False)
    if failed:
        raise typer.Exit(1)
