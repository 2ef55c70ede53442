"""`ppodc demo --desk`: both clouds on this machine, and a desk for each party of a study."""

import csv
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from client.demo import OWNERS, make_folder
from client.operator import Operator
from ppodc.errors import PpodcError
from ppodc.local.platform import LocalPlatform
from ppodc.local.synthetic import clinic_spec, clinics

_PARTIES = (*OWNERS, "operator", "cloud1")


def _until_interrupted(console: Console) -> None:
    console.print("Ctrl-C ends all of it")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        console.print("ending")


def demo_desks(
    folder: Path,
    rows: int,
    pairs: int,
    wait: Callable[[Console], None] = _until_interrupted,
) -> None:
    """Start everything, print where each desk is opened, and end it all after `wait`."""
    console = Console(highlight=False, soft_wrap=True)
    make_folder(folder)
    console.print("starting both clouds, their Ray and their keys ...")
    with ExitStack() as stack:
        platform = stack.enter_context(
            LocalPlatform(folder / "platform", owners=OWNERS, pairs=pairs)
        )
        spec = replace(clinic_spec(), owners=platform.members())
        with Operator.connect(platform.config("operator")) as operator:
            operator.create(spec)
        parts = np.array_split(clinics(rows), len(OWNERS))
        for name, part in zip(OWNERS, parts, strict=True):
            with (folder / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([spec.schema.names, *part.tolist()])
        for party in _PARTIES:
            process = platform.begin(party, "desk", "--no-browser")
            stack.callback(process.wait)
            stack.callback(process.terminate)
            line = process.stdout.readline() if process.stdout is not None else ""
            if "file:" not in line:
                raise PpodcError(f"the desk of {party} did not start.")
            console.print(f"{party}: {line[line.index('file:') :].strip()}", markup=False)
        console.print(f"tables of the owners: {folder / OWNERS[0]}.csv and {OWNERS[1]}.csv")
        console.print(f"the study number of {spec.name} ends {spec.digest[-8:]}")
        console.print("each page opens once; send both tables, then run the job at cloud 1's desk")
        wait(console)
