"""Where an estimator's job runs: threads of this process, this machine, or a real deployment.

`RemotePlatform` is a deployment seen from whoever has the configurations of some of its owners. An
estimator's `fit` uploads their tables and opens the result as they would; everything else (who else
uploads, when the job is run) happens at the clouds.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, get_args

from client.accepted import Agreed
from client.operator import Operator
from client.owner import Owner
from client.owner_tables import DataError, Tables, as_data_errors
from ppodc.errors import InputError
from ppodc.local.platform import LocalPlatform
from ppodc.local.thread_platform import ThreadPlatform
from ppodc.members import Members
from ppodc.pairs.plan import pair_kind, suite_of
from ppodc.pairs.progress import ignore
from ppodc.service.config import OwnerConfig, load
from ppodc.service.upload import Sealed
from ppodc.spec import Spec
from ppodc.transport.curve_keys import CurveKeys

NAME = "records"  # of a dataset that nobody else sees
_KEY_BITS = 2048  # of a platform here, unless somebody asks for other ones
_NO_MATTER = ("labels", "products")  # of a spec, to an estimator: it has no parameter for them


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job that was run: its spec, and the result as each owner, by name, opens it.

    `sealed`: what both clouds know of the uploads, if they ran here; owners are not told.
    """

    spec: Spec
    owners: list[str]
    results: list[Any]
    sealed: Sealed | None = None


class RemotePlatform:
    """A deployment, with the configuration files of the owners whose tables `fit` is given.

    Parameters
    ----------
    owners : configuration files (owner.toml), in the order of the tables.
    operator : the operator's configuration, if `fit` shall create the dataset with these owners.
    dataset : its name; it must be there already unless `operator` is given.
    spec : what the owners agree to (a Spec, the Path of its file, or its digest), for a dataset
        that is there; None if they have accepted it before.
    start : called with the dataset's name when all tables are uploaded; without it, whoever runs
        cloud 1 starts the job (`ppodc run`) when all owners have uploaded, and `fit` waits.
    timeout : most seconds to wait for the result; None: as long as it takes.
    """

    def __init__(
        self,
        *owners: str | Path,
        operator: str | Path | None = None,
        dataset: str | None = None,
        spec: Agreed | None = None,
        start: Callable[[str], None] | None = None,
        timeout: float | None = None,
    ) -> None:
        if not owners or (operator is None and dataset is None):
            raise InputError(
                "name the owners' configuration files, and the dataset or the operator's "
                "configuration, by which one is created."
            )
        self.owners, self.operator = owners, operator
        self.dataset, self.spec = dataset, spec
        self.start, self.timeout = start, timeout

    def __deepcopy__(self, _memo: object) -> "RemotePlatform":
        return self  # clones of an estimator share it

    def run(self, spec: Spec, tables: Tables, verbose: bool = False) -> Outcome:
        """Upload the owners' tables, and wait for the result; the spec is the estimator's."""
        if len(tables) != len(self.owners):
            raise DataError(
                f"{len(tables)} tables for {len(self.owners)} owners: give one table for each "
                "configuration file."
            )
        with ExitStack() as stack:
            owners = [stack.enter_context(Owner.connect(config)) for config in self.owners]
            agreed = self._created(spec) if self.operator is not None else None
            shown = agreed or self._shown(spec, owners[0])
            for owner, table in zip(owners, tables, strict=True):
                self._upload(owner, shown, table, agreed or self.spec, verbose)
            if self.start is not None:
                self.start(shown.name)
            results = [owner.result(shown.name, timeout=self.timeout) for owner in owners]
            return Outcome(shown, [owner.name for owner in owners], results)

    def _upload(
        self, owner: Owner, spec: Spec, table: Any, agreed: Agreed | None, verbose: bool
    ) -> None:
        """Give a table, as the only one of its owner where results are told by row."""
        receipt = owner.upload(spec.name, table, spec=agreed, progress=verbose)
        if receipt.before and spec.kind.row_outputs(spec):
            if not receipt.repeated:
                owner.withdraw(spec.name, receipt.upload_id)
            raise DataError(
                f"{owner.name} has given dataset {spec.name!r} other records before: its result "
                "would count the rows of all, not those of this table. `Owner.withdraw` takes "
                "earlier ones back, then fit again; `Owner.result` tells of all."
            )

    def _created(self, spec: Spec) -> Spec:
        configs = [load(path, OwnerConfig) for path in self.owners]
        keys = {config.name: CurveKeys.load(config.key).public.decode() for config in configs}
        name = self.dataset or f"{spec.name}-{token_hex(8)}"
        made = replace(spec, name=name, owners=Members.of(keys))
        assert self.operator is not None  # noqa: S101 - asked for by the caller
        with Operator.connect(self.operator) as operator:
            operator.create(made)
        return made

    def _shown(self, spec: Spec, owner: Owner) -> Spec:
        assert self.dataset is not None  # noqa: S101 - checked when made
        shown = owner.spec(self.dataset)
        if other := _differences(spec, shown):
            raise DataError(
                f"the job of dataset {self.dataset!r} is not this estimator's: {'; '.join(other)}. "
                "Nothing was sent. SecureKMeans.from_spec(owner.spec(name)) has its parameters."
            )
        return shown


def _differences(own: Spec, shown: Spec) -> list[str]:
    """What the clouds' spec says otherwise; names of columns count if the tables have any."""
    mine, theirs = _flat(own), _flat(shown)
    if own.schema.names == [f"x{i}" for i in range(len(own.schema.names))]:
        mine["names"] = theirs["names"]
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    keys = [key for key in keys if key not in _NO_MATTER]
    return [f"{key} is {theirs.get(key)} and not {mine.get(key)}" for key in keys]


def _flat(spec: Spec) -> dict[str, Any]:
    columns, texts, document = spec.schema.columns, spec.schema.texts, spec.to_dict()
    if "linkage" in document:  # then columns are known by name
        columns = tuple(sorted(columns, key=lambda column: column.name))
    return {
        **document["job"],
        "max_links": getattr(spec.job, "max_links", None),  # also where it is the usual one
        "linkage": document.get("linkage"),
        "ub": spec.schema.ub,
        "names": [column.name for column in columns],
        "bounds": [(column.low, column.high) for column in columns],
        "uses": [column.use for column in columns],
        "texts": sorted((text.name, text.signs, text.longest) for text in texts),
    }


Platform = ThreadPlatform | LocalPlatform | RemotePlatform
PLATFORMS = [*get_args(Platform), None]


def run_job(
    spec: Spec,
    tables: Tables,
    platform: Platform | None = None,
    *,
    suite: str | None = None,
    pairs: int = 1,
    verbose: bool = False,
) -> Outcome:
    """Run it where it belongs; without a platform, on one that is started for it alone."""
    with as_data_errors():  # before anything starts or leaves
        encoded = [spec.kind.upload(spec).encode(table) for table in tables]
        if not isinstance(platform, RemotePlatform):  # there others give records too
            kind = pair_kind(spec)
            kind.check(spec, sum(map(len, tables)), suite_of(kind, suite), _KEY_BITS)
    if isinstance(platform, RemotePlatform):
        return platform.run(spec, tables, verbose)
    if isinstance(platform, ThreadPlatform):
        names = [f"owner{i}" for i in range(1, len(tables) + 1)]
        seen: list[Sealed | None] = []
        results = _in_threads(platform, spec, encoded, suite, verbose, seen.append)
        return Outcome(spec, names, results, *seen)
    if platform is not None:
        return _on_machine(platform, spec, tables, suite, verbose)
    with LocalPlatform(owners=len(tables), pairs=pairs) as own:
        return _on_machine(own, spec, tables, suite, verbose)


def _in_threads(
    platform: ThreadPlatform,
    spec: Spec,
    encoded: Sequence[Any],
    suite: str | None,
    verbose: bool,
    on_seal: Callable[[Sealed], None],
) -> list[Any]:
    if not verbose:
        return platform.run(spec, encoded, suite, ignore, on_seal)
    from ppodc.cli.screen import JobScreen

    with JobScreen() as screen:
        return platform.run(spec, encoded, suite, screen.show, on_seal)


def _on_machine(
    platform: LocalPlatform, spec: Spec, tables: Tables, suite: str | None, verbose: bool
) -> Outcome:
    """As operator and owners of a platform that runs here; its dataset is deleted afterwards."""
    names = platform.owners
    if len(tables) > len(names):
        raise DataError(
            f"the platform has {len(names)} owners for {len(tables)} tables; start it with "
            f"LocalPlatform(owners={len(tables)}) or more."
        )
    remote = RemotePlatform(
        *(platform.config(name) for name in names[: len(tables)]),
        operator=platform.config("operator"),
        start=lambda name: platform.run(name, suite, quiet=not verbose),
    )
    outcome = remote.run(spec, tables, verbose)
    outcome = replace(outcome, sealed=platform.sealed(outcome.spec.name))
    with Operator.connect(platform.config("operator")) as operator:
        operator.delete(outcome.spec.name)
    return outcome
