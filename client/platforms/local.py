"""Jobs on a `LocalPlatform`: this process plays the operator and the owners."""

from collections.abc import Sequence
from dataclasses import replace

from client.encoded_table import EncodedTable
from client.operator import Operator
from client.platforms.notebook_line import NotebookLine, in_notebook
from client.platforms.outcome import Outcome
from client.platforms.remote import RemotePlatform
from client.platforms.threads import SMALL
from ppodc.local.platform import LocalPlatform
from ppodc.spec import Spec


def run_locally(
    platform: LocalPlatform,
    spec: Spec,
    tables: Sequence[EncodedTable],
    suite: str | None,
    verbose: bool,
) -> Outcome:
    """Create the dataset, upload, run the job and open the result; then delete the dataset."""
    names = platform.owners
    pairs = 1 if sum(len(table.values) for table in tables) <= SMALL else platform.pairs

    def start(name: str) -> None:
        if not (verbose and in_notebook()):
            platform.run(name, suite, pairs=pairs, quiet=not verbose)
            return
        with NotebookLine() as line:
            platform.run(name, suite, pairs=pairs, told=line.say)

    remote = RemotePlatform(
        *(platform.config(name) for name in names[: len(tables)]),
        operator=platform.config("operator"),
        start=start,
    )
    remote.trial = True
    outcome = remote.run(spec, tables, verbose)
    outcome = replace(outcome, sealed=platform.sealed(outcome.spec.name))
    with Operator.connect(platform.config("operator")) as operator:
        operator.delete(outcome.spec.name)
    return outcome
