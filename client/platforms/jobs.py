"""An estimator's job on whatever platform it has.

Without a platform a small job runs in two threads of this process, and a larger one on a
`LocalPlatform` that is started for it alone. Both run the protocols message by message and give the
same result. Both run on one machine, so neither protects the records from whoever controls it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from client.accountant import charge_job
from client.encoded_table import EncodedTable
from client.estimators.parameters import NOTHING, instance, loaded
from client.platforms.notebook_line import NotebookLine, in_notebook
from client.platforms.outcome import Outcome
from client.platforms.threads import SMALL, ThreadPlatform
from ppodc.errors import OptionError
from ppodc.extras import named_if_missing
from ppodc.kinds import cloud_side
from ppodc.pairs.progress import ignore
from ppodc.records.owner_side import Ints
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from client.platforms.remote import RemotePlatform
    from ppodc.local.platform import LocalPlatform

NAME = "records"  # of a dataset that nobody else sees
_KEY_BITS = 2048  # of a platform here, unless somebody asks for other ones

log = logging.getLogger(__name__)

Platform: TypeAlias = "ThreadPlatform | LocalPlatform | RemotePlatform"
_LOCAL = loaded("ppodc.local.platform", "LocalPlatform")
_REMOTE = loaded("client.platforms.remote", "RemotePlatform")
PLATFORMS = [instance(ThreadPlatform), _LOCAL, _REMOTE, NOTHING]


def is_remote(platform: "Platform | None") -> "TypeIs[RemotePlatform]":
    """Whether a job there runs in a real deployment."""
    return _REMOTE.holds(platform)


def _is_local(platform: "Platform | None") -> "TypeIs[LocalPlatform]":
    return _LOCAL.holds(platform)


def owner_names(platform: "Platform | None", count: int) -> list[str]:
    """The names of the owners of that many tables on a platform, as a spec has them."""
    if is_remote(platform):
        names = platform.owner_names
    elif _is_local(platform):
        names = platform.owners
    else:
        names = [f"owner{number}" for number in range(1, count + 1)]
    if len(names) < count:
        raise OptionError(
            f"the platform has {len(names)} owners for {count} tables; start it with "
            f"LocalPlatform(owners={count}) or more, or name as many configuration files."
        )
    return names[:count]


@named_if_missing()
def run_job(
    spec: Spec,
    tables: Sequence[Any],
    platform: "Platform | None" = None,
    *,
    suite: str | None = None,
    pairs: int = 1,
    verbose: bool = False,
) -> Outcome:
    """Run the job on the platform, or on this machine if there is none."""
    if is_remote(platform):
        charge_job(spec)
        return platform.run(spec, tables, verbose)
    # before anything starts
    names = owner_names(platform, len(tables))
    encoded = EncodedTable.each(spec, tables, names)
    rows, chosen = sum(map(len, tables)), spec.kind.suite(suite)
    cloud_side(spec).check(rows, chosen, _KEY_BITS)
    charge_job(spec)
    if platform is None and pairs == 1 and rows <= SMALL:
        log.info("%d rows and no platform: both clouds run as threads of this process", rows)
        platform = ThreadPlatform()
    if isinstance(platform, ThreadPlatform):
        seen: list[Sealed] = []
        values = [table.values for table in encoded]
        results = _in_threads(platform, spec, values, suite, verbose, seen.append)
        return Outcome(spec, names, results, *seen)
    from client.platforms.local import run_locally
    from ppodc.local.platform import LocalPlatform

    if platform is not None:
        return run_locally(platform, spec, encoded, suite, verbose)
    with LocalPlatform(owners=len(tables), pairs=pairs) as own:
        return run_locally(own, spec, encoded, suite, verbose)


def _in_threads(
    platform: ThreadPlatform,
    spec: Spec,
    values: Sequence[Ints],
    suite: str | None,
    verbose: bool,
    on_seal: Callable[[Sealed], None],
) -> list[Any]:
    if not verbose:
        return platform.run(spec, values, suite, ignore, on_seal)
    from ppodc.cli.screen import JobScreen

    with NotebookLine() if in_notebook() else JobScreen() as screen:
        return platform.run(spec, values, suite, screen.show, on_seal)
