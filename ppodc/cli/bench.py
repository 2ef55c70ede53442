"""`ppodc bench ...`: one table of measurements; every line of it becomes a command.

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
from typing import Annotated, Any

import typer

from ppodc.bench.network_presets import USD_PER_CORE_HOUR, LinkName
from ppodc.cli.options import JsonFile, SuiteOption, err, png_to_write, write_json
from ppodc.cli.written_values import duration, numbers, numbers_or_none, whole
from ppodc.kmeans import suites
from ppodc.kmeans.half import Products

bench = typer.Typer(
    help="Measurements: each prints a table, writes JSON (--json) and draws (--plot).",
    no_args_is_help=True,
)


# ------------------------------------------------------------- options


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


def few(default: int) -> inspect.Parameter:
    text = "Records of the paillier suite, extrapolated to all m."
    return choice("records", int, default, text, min=1)


L = choice("l", int, 10, "Attributes.")
K = choice("k", int, 4, "Clusters.")
SHAPE = (records(), L, K)
SIZES = "2000,4000,6000,8000,10000"
PAIRS = choice("pairs", int, 1, "Worker pairs.", min=1)
MANY_PAIRS = parsed("pairs", numbers, "1,2,4,8", "Numbers of worker pairs.")
SUITE = parameter("suite", SuiteOption, suites.DEFAULT)
ANY_SUITE = optional("suite", suites.Suite, "One suite; both if left out.")
KEY_TEXT = "Paillier key: 2048 or 3072 bits; less to compare with published figures."
KEY_BITS = choice("key_bits", int, 2048, KEY_TEXT)
ITERATIONS = choice("iterations", int, 5, "Iterations to measure over.", min=1)
SHARES_ITERATIONS = choice("iterations", int, 3, "Iterations of the shares suite.", min=1)
OF_ONE_SUITE = (KEY_BITS, few(8), SHARES_ITERATIONS)
IMITATED_LINK = (
    optional("link", LinkName, "Imitate what lies between the clouds; else loopback."),
    optional("gbit", float, "Gbit/s of the link, each direction."),
    optional("latency_ms", float, "Its one-way latency."),
)
PRODUCTS = choice("products", Products, "auto", "How the shares suite multiplies with records.")
POINTS_TEXT = "Finished points are kept here and not measured again."
POINTS = choice("points", Path, "bench-points.jsonl", POINTS_TEXT)
JSON = parameter("json_file", JsonFile, None)
PLOT = choice("plot", Path | None, None, "Draw a plot here (PNG).", callback=png_to_write)
# Longer than a line of the table has room for
POWERS_OF_TWO = "1,2,4,8,16,32,64,128,256,512,1024"
WITHIN_TEXT = "How many pairs finish the job in this time, such as 1h?"
DISPATCH_TEXT = "Of the master, for each pair and phase (assumed)."
DEPLOYMENT_TEXT = "Folder of `ppodc init` whose clouds run; this machine if left out."
KEGG_TEXT = "The data set (.csv or .csv.gz); without it, the stored results."
KEGG_ROWS_TEXT = "Records that the paillier suite runs; 'none' leaves it out."
FEBRL_TEXT = "Folder with FEBRL's dataset3.csv and dataset4a.csv, b; else of the peers' package."
CENSUS_TEXT = "Folder with dist.all.last etc. of the PyPI package `names`."
PASSES_TEXT = "1: pairs of equal birth year; 2: besides, those of equal birth year or area."
KEGG_KEYS_TEXT = "Paillier keys: 1,024 bits as published, 2,048 as it should be."


# ------------------------------------------------------------- the table


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


def owner_and_operator() -> dict[str, Any]:
    """Those who call the clouds, for a measurement that plays them."""
    from client.operator import Operator
    from client.owner import Owner

    return {"owner": Owner, "operator": Operator}


def all_parties() -> dict[str, Any]:
    """The parties' own code, for a measurement that plays all of them in one process."""
    from client.both_clouds import Clouds
    from client.operator import Operator
    from client.owner import Owner
    from cloud2.follower import Follower
    from cloud2.service import control_operations
    from master import driver, job
    from master.cloud2_client import Cloud2Client
    from ppodc.bench.fault_world import Parties

    return {
        "parties": Parties(
            run_job=job.run_job,
            resume_job=job.resume_job,
            prepare_job=job.prepare_job,
            seal_dataset=job.seal_dataset,
            cancel_job=job.cancel_job,
            means=driver.Means,
            cloud2_client=Cloud2Client,
            follower=Follower,
            control_operations=control_operations,
            owner=Owner,
            operator=Operator,
            both_clouds=Clouds,
        )
    }


MEASUREMENTS = (
    Measurement(
        "iteration",
        "One iteration between two processes: offline, online, bytes, rounds, memory, by step.",
        (SUITE, *SHAPE, PAIRS, ITERATIONS, *IMITATED_LINK, KEY_BITS, PRODUCTS),
        points=False,
        draws=False,
    ),
    Measurement(
        "start",
        "Choosing the first records by k-means++, beside an iteration of the same job.",
        (records(), L, *many(k="4,20"), PAIRS, SHARES_ITERATIONS, *IMITATED_LINK, KEY_BITS),
        points=False,
        draws=False,
    ),
    Measurement(
        "primitives",
        "Table 5.3: SMP, SSED_OP, SBD, SMIN_k per invocation, both suites, with counts.",
        (
            ANY_SUITE,
            KEY_BITS,
            records(6000, "Records of the job (fixes the widths)."),
            L,
            K,
            choice("records", int, 24, "Records the paillier suite measures over.", min=1),
        ),
    ),
    Measurement(
        "sweep",
        "Figure 5.3: seconds per iteration over m, k and l.",
        (ANY_SUITE, *many(m=SIZES, k="2,4,6,8", l="5,10,15,20"), *OF_ONE_SUITE),
    ),
    Measurement(
        "breakdown",
        "Figure 5.4: what part of an iteration each primitive takes, over k.",
        (ANY_SUITE, *many(k="2,3,4,5,6,7,8"), records(6000), L, *OF_ONE_SUITE),
    ),
    Measurement(
        "modes",
        "Figure 5.5: the paillier suite online + offline, online and pipelined, over m.",
        (*many(m=SIZES), L, K, KEY_BITS, few(16)),
    ),
    Measurement(
        "pairs",
        "Figure 5.6: one iteration over worker pairs on Ray; CPU, critical path, wall time.",
        (MANY_PAIRS, *SHAPE, SUITE, ITERATIONS, optional("deployment", Path, DEPLOYMENT_TEXT)),
    ),
    Measurement(
        "simulate",
        "SIMULATION of many pairs, calibrated here: time and money of an iteration and of a job.",
        (
            parsed("m", whole, "1e6", "Records, up to 1e9."),
            L,
            K,
            SUITE,
            KEY_BITS,
            parsed("pairs", numbers, POWERS_OF_TWO, "Numbers of worker pairs, up to 1024."),
            optional("link", LinkName, "What lies between the clouds; all three if left out."),
            optional("gbit", float, "Gbit/s of each pair and direction."),
            optional("latency_ms", float, "One-way latency."),
            optional("total_gbit", float, "Gbit/s of all pairs together, each direction."),
            choice("usd_core_hour", float, USD_PER_CORE_HOUR, "Price of a core for an hour."),
            optional("usd_gb", float, "Price of a GB between the clouds: 0, 0.01, 0.09 by link."),
            parsed("within", duration, None, WITHIN_TEXT),
            choice("iterations", int, 20, "Iterations of the whole job.", min=1),
            choice("dispatch_ms", float, 2.0, DISPATCH_TEXT, min=0),
        ),
    ),
    Measurement(
        "kegg",
        """KEGG to convergence with the shares suite, every iteration compared with plaintext.

        Without --m: m, l and k vary one at a time around 10,000 records, 10 attributes, 4
        clusters, and all records run with 27 and 10 attributes. With --m: every combination of the
        lists.
        """,
        (
            parameter("data", Path | None, typer.Argument(None, help=KEGG_TEXT)),
            parsed("m", numbers, None, "Records, with all l and k; one at a time if left out."),
            *many(l="5,10,15,20,27", k="2,4,6,8"),
            PAIRS,
            choice("max_iter", int, 100, "Most iterations of a job.", min=1),
            parsed("paillier_rows", numbers_or_none, "8,32", KEGG_ROWS_TEXT),
            parsed("key_bits", numbers, "1024,2048", KEGG_KEYS_TEXT),
        ),
    ),
    Measurement(
        "peers",
        "The same iteration in SecretFlow SPU (Cheetah, Semi2k) beside the shares suite.",
        (
            *SHAPE,
            choice("runs", int, 3, "Iterations to take the median of.", min=1),
            optional("python", Path, "Interpreter that has the package `spu`, if not this one."),
            *IMITATED_LINK,
        ),
    ),
    Measurement(
        "paillier",
        "Encrypt, decrypt, randomise, multiply by plain and add, side by side with `phe`.",
        (KEY_BITS, choice("seconds", float, 30, "How long to measure.")),
        points=False,
        draws=False,
        module="paillier_beside_phe",
    ),
    Measurement(
        "faults",
        """Random fault schedules in one process: is every result exact, is nothing lost or doubled?

        Workers, services and the master die, stall or lose their link, disks fill, messages are
        lost or repeated, at points drawn from the seed.
        """,
        (
            choice("schedules", int, 1000, "How many.", min=1),
            choice("seed", int, 1, "Of the whole campaign; the same gives the same schedules."),
        ),
        points=False,
        draws=False,
        given=all_parties,
    ),
    Measurement(
        "soak",
        """Jobs of all kinds on real services and Ray while processes die at random: does it last?

        Services, masters, uploads, workers and Ray's own processes are killed or stopped for a
        while; every result must be exact. What the services hold (memory, descriptors, sockets,
        processes, files) is compared. Ctrl-C ends it early, with its report.
        """,
        (
            choice("minutes", float, 60, "For how long.", min=0.1),
            choice("seed", int, 1, "Of the jobs and faults; timing makes every run another."),
            optional("folder", Path, "New folder that keeps the deployment and all logs."),
        ),
        points=False,
        draws=False,
        given=owner_and_operator,
    ),
    Measurement(
        "linkage",
        """Private record linkage in the clear: pairs left to compare, beside the published ones.

        On Adult over the size, epsilon, delta, eta and theta; on names if their folder is given.
        """,
        (
            parameter("data", Path, typer.Argument(help="The Adult data set (adult.data).")),
            *many(m="1500,3000,6000,12000"),
            choice("seeds", int, 20, "Runs of each point, each with its own sample.", min=1),
            choice("sweeps", bool, True, "Also one parameter at a time at 6,000 records."),
            choice("kd_readings", bool, False, "Also every reading of the published kd-trees."),
            optional("names", Path, CENSUS_TEXT),
        ),
    ),
    Measurement(
        "linkage-pairs",
        """What comparing a pair of records on shares costs; every match bit checked.

        Numbers and strings drawn at random, and Adult in cells if its file is given.
        """,
        [
            parameter("data", Path | None, typer.Argument(None, help="adult.data, if at hand.")),
            choice("side", int, 2048, "Rows of each owner, numbers.", min=4),
            choice("strings", int, 256, "Rows of each owner, strings.", min=4),
            records(6000, "Rows of each owner, Adult."),
            choice("every", bool, False, "Adult also without cells: all pairs of rows."),
        ],
        draws=False,
        module="linkage_pairs",
    ),
    Measurement(
        "linkage-texts",
        """Names in cells of lengths and mixed fields on shares, also over an imitated slow link.

        Every match bit is checked. Fields are of made-up people; names need the census' lists.
        """,
        [
            parameter("names", Path | None, typer.Argument(None, help=CENSUS_TEXT)),
            choice("people", int, 30_000, "Names of so many people, in thirds.", min=9),
            choice("theta", int, 1, "Most edits of both names together.", min=0, max=8),
            choice("side", int, 100, "Rows of each owner, fields; 0 leaves them out.", min=0),
            *IMITATED_LINK,
        ],
        draws=False,
        module="linkage_texts",
    ),
    Measurement(
        "linkage-peers",
        """FEBRL linked by recordlinkage, splink, anonlink, and on shares: how well, who sees what?

        Rules are fixed on FEBRL 3 and tested on FEBRL 4. Ours really runs between two processes.
        """,
        [
            optional("data", Path, FEBRL_TEXT),
            optional("python", Path, "Interpreter that has the peers, as of `make linkage-peers`."),
            choice(
                "passes",
                int,
                2,
                "1: by birth year; 2: also by birth year or postcode.",
                min=1,
                max=2,
            ),
        ],
        draws=False,
        module="linkage_peers",
    ),
    Measurement(
        "linkage-paillier",
        "A pair of records by the published three-party protocol: Paillier and garbled circuits.",
        [
            choice("side", int, 8, "Records of each owner; all pairs are compared.", min=4),
            parsed("key_bits", numbers, "1024,2048", KEGG_KEYS_TEXT),
        ],
        draws=False,
        module="linkage_paillier",
    ),
    Measurement(
        "gateway",
        "One hostile owner at full speed beside honest ones and a running job: who is answered?",
        [
            records(2000),
            choice("l", int, 4, "Attributes."),
            choice("k", int, 3, "Clusters."),
            choice("owners", int, 9, "Honest owners.", min=1),
            choice("iterations", int, 10, "Most iterations of the job.", min=1),
        ],
        points=False,
        draws=False,
        given=all_parties,
    ),
    Measurement(
        "fuzz",
        """Mutated real traffic to every socket of every role: does anything crash, hang or grow?

        Most frames go to the gateways' desks and into channels inside this process, some over TCP
        with keys and without; an honest owner and an honest pair go on beside them.
        """,
        [
            choice("frames", int, 1_000_000, "How many.", min=100),
            choice("seed", int, 1, "The same gives the same frames."),
        ],
        points=False,
        draws=False,
        given=all_parties,
    ),
    Measurement(
        "platform",
        "What orchestration costs, whether memory grows, and many owners uploading at once.",
        (
            *SHAPE,
            PAIRS,
            choice("iterations", int, 50, "Iterations of the job.", min=2),
            choice("owners", int, 100, "Owners that upload at once.", min=1),
            SUITE,
        ),
        points=False,
        draws=False,
    ),
)
for _measurement in MEASUREMENTS:
    bench.command(_measurement.name)(_measurement.command())


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
    failed = report.run(page, report.sections(full, kegg, spu_python, names))
    err.print(f"written: {page}", markup=False)
    if failed:
        raise typer.Exit(1)
