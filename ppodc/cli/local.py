"""Commands for trying things on this machine: the demo, a single pair, a sample spec."""

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ppodc import kinds
from ppodc.cli.options import Insecure, KeyBits, SuiteOption, out
from ppodc.kmeans import suites
from ppodc.kmeans.suites import Mode

if TYPE_CHECKING:
    from ppodc.local.pair import Outcome
    from ppodc.records.schema import Schema

local = typer.Typer()
KINDS = ", ".join(kinds.ROOMS)
JOIN = "join"  # a sample that is no kind of its own


@local.command("run-pair")
def run_pair_command(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet table, split between two owners.")],
    spec: Annotated[Path, typer.Option(help="Spec file; `ppodc sample-spec` prints one.")],
    suite: SuiteOption = "paillier",
    key_bits: KeyBits = 2048,
    insecure_key: Insecure = False,
    mode: Annotated[
        Mode, typer.Option(help="Randomness made when needed or ahead; turns or overlap.")
    ] = "pipelined",
    folder: Annotated[
        Path | None, typer.Option(help="Keep both clouds' folders here (must not exist).")
    ] = None,
    header: Annotated[bool, typer.Option(help="Whether the CSV has a line of names.")] = True,
) -> None:
    """Cluster a table between two processes on this machine, without Ray.

    The rows are split between two pretend owners. C1 and C2 run as two processes that talk over
    an encrypted socket on loopback. The centres are compared with plaintext k-means.
    """
    from ppodc.cli.screen import JobScreen
    from ppodc.local.pair import run_pair
    from ppodc.records.encode import encode
    from ppodc.spec import Spec

    loaded = Spec.load(spec)
    records = encode(data, loaded.schema, header=header)
    where = tempfile.TemporaryDirectory(prefix="ppodc-") if folder is None else nullcontext(folder)
    with where as place, JobScreen() as screen:
        outcome = run_pair(
            records,
            loaded,
            Path(place),
            suite=suite,
            key_bits=key_bits,
            insecure=insecure_key,
            mode=mode,
            progress=screen.show,
        )
    _show(outcome, loaded.schema)
    if not outcome.identical:
        raise typer.Exit(1)


def _show(outcome: "Outcome", schema: "Schema") -> None:
    """The centres in real units, beside plaintext k-means."""
    from ppodc.records.grid import decode_centres

    ours, plain = outcome.result, outcome.reference
    theirs = decode_centres(plain.sums, plain.sizes, schema)
    table = Table("cluster", "records", *ours.columns)
    table.title = "Centres (this run | plaintext k-means)"
    for h, size in enumerate(ours.sizes_):
        both = zip(ours.cluster_centers_[h], theirs[h], strict=True)
        table.add_row(str(h), str(size), *(f"{a:.4g} | {b:.4g}" for a, b in both))
    out.print(table)
    end = "converged" if ours.converged_ else "stopped by max_iter"
    out.print(f"iterations: {ours.n_iter_} ({end})")
    out.print(f"identical: {'yes' if outcome.identical else 'NO'}")


@local.command("sample-spec")
def sample_spec_command(
    kind: Annotated[
        str, typer.Option(help=f"Kind of job: {KINDS}; or {JOIN}: k-means over joined columns.")
    ] = kinds.DEFAULT,
    folder: Annotated[
        Path | None, typer.Option("--deployment", help="Name the owners that `ppodc init` made.")
    ] = None,
) -> None:
    """Print a commented spec file: columns with their bounds, the job, and the owners."""
    from ppodc import members
    from ppodc.service import deployment

    made = None if folder is None else deployment.members(folder)
    owners = members.SAMPLE if made is None else made.to_toml()
    if kind == JOIN:
        from ppodc.linkage.joined.sample import sample

        text = sample() if made is None else sample(made.names)
    else:
        text = kinds.named(kind).sample
    sys.stdout.write(f"{text}\n{owners}")


@local.command("demo")
def demo_command(
    folder: Annotated[
        Path, typer.Option(help="Where plot and files go (made anew if it is a demo's).")
    ] = Path("demo_output"),
    suite: SuiteOption = suites.DEFAULT,
    rows: Annotated[int, typer.Option(min=6, help="Invented records of both owners.")] = 600,
    pairs: Annotated[int, typer.Option(min=1, max=8, help="Worker pairs.")] = 2,
    desk: Annotated[
        bool, typer.Option("--desk", help="Open the desks of all parties instead, and wait.")
    ] = False,
) -> None:
    """Run a whole study on this machine: two owners, two clouds, worker pairs, a plot.

    With --desk nothing is uploaded: two owners, the operator and cloud 1 get a desk each, and you
    are all of them.
    """
    if desk:
        from client.desk.demo import demo_desks

        demo_desks(folder, rows, pairs)
        return
    from client.demo import demo

    if not demo(folder, suite, rows, pairs):
        raise typer.Exit(1)
