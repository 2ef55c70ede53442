"""Commands that need no party's code: one pair on this machine, and the sample spec."""

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ppodc.cli.options import Insecure, KeyBits, ModeName

pair = typer.Typer()


@pair.command("run-pair")
def run_pair_command(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet table, split between two owners.")],
    spec: Annotated[Path, typer.Option(help="Spec file; `ppodc sample-spec` prints one.")],
    key_bits: KeyBits = 2048,
    insecure_key: Insecure = False,
    mode: Annotated[ModeName, typer.Option(help="How the paillier suite runs.")] = (
        ModeName.PIPELINED
    ),
    folder: Annotated[
        Path | None, typer.Option(help="Keep both clouds' folders here (must not exist).")
    ] = None,
    header: Annotated[bool, typer.Option(help="Whether the CSV has a line of names.")] = True,
) -> None:
    """Cluster a table with the paillier suite between two processes on this machine.

    The rows are split between two pretend owners. C1 and C2 run as two processes that talk over
    an encrypted socket on loopback. The centres are compared with plaintext k-means.
    """
    from ppodc.local.pair import run_pair
    from ppodc.local.pair_screen import PairScreen
    from ppodc.records.encode import encode
    from ppodc.spec import Spec

    loaded = Spec.load(spec)
    records = encode(data, loaded.schema, header=header)
    where = tempfile.TemporaryDirectory(prefix="ppodc-") if folder is None else nullcontext(folder)
    with where as place, PairScreen(len(records)) as screen:
        outcome = run_pair(
            records,
            loaded,
            Path(place),
            key_bits=key_bits,
            insecure=insecure_key,
            mode=mode.value,
            event=screen.event,
        )
    screen.show(outcome, loaded.schema)
    if not outcome.identical:
        raise typer.Exit(1)


@pair.command("pair-half", hidden=True)
def pair_half_command(folder: Path) -> None:
    """One cloud's half of `run-pair`; started by it."""
    from ppodc.local import pair_process

    pair_process.main(folder)


@pair.command("sample-spec")
def sample_spec_command() -> None:
    """Print a commented spec file: columns with their bounds, and the job."""
    from ppodc.kmeans.job import SAMPLE

    sys.stdout.write(SAMPLE)
