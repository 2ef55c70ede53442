"""`RemotePlatform`: a deployment, seen by the holder of some of its owners' configurations.

An estimator's `fit` uploads their tables and opens the result as these owners would. Everything
else happens at the clouds: other owners upload, and an operator runs the job.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from client.accepted import Agreed
from client.encoded_table import EncodedTable
from client.fetched_result import JobProgress
from client.operator import Operator
from client.owner import Owner
from client.platforms.notebook_line import NotebookLine, in_notebook
from client.platforms.outcome import Outcome
from ppodc.errors import ConfigError, OptionError
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.joined.join import Join
from ppodc.members import Members
from ppodc.service.config import OwnerConfig, load
from ppodc.spec import Spec
from ppodc.transport.curve_keys import CurveKeys

_NO_MATTER = ("labels", "products", "supplies")  # of a spec: an estimator has no parameter for them


@contextmanager
def _waiting(name: str) -> Iterator[Callable[[JobProgress], None]]:
    """Shows what `fit` waits for, where the user looks."""
    if not in_notebook():
        from ppodc.cli.opened_results import waiting

        with waiting(name) as tell:
            yield tell
        return
    with NotebookLine() as line:
        yield lambda progress: line.say(progress.waiting(name))


class RemotePlatform:
    """A deployment, with the configuration files of the owners whose tables `fit` is given.

    Parameters
    ----------
    *owners : str or Path
        Configuration files (owner.toml), in the order of the tables.
    operator : str, Path or None, default=None
        The operator's configuration, if `fit` shall create the dataset with these owners.
    dataset : str or None, default=None
        The dataset's name. It must exist already unless `operator` is given.
    spec : Spec, Path, str or None, default=None
        The spec that the owners agree to, the Path of its file, or its digest, for a dataset that
        exists. None if they have accepted it before.
    start : callable or None, default=None
        Called with the dataset's name when all tables are uploaded. Without it, the operator of
        cloud 1 starts the job (`ppodc run`) when all owners have uploaded, and `fit` waits.
    timeout : float or None, default=None
        Most seconds to wait for the result; None waits as long as it takes.

    Examples
    --------
    >>> from ppodc import RemotePlatform, SecureKMeans
    >>> there = RemotePlatform("ann/owner.toml", dataset="clinic", start=start, timeout=20)
    >>> model = SecureKMeans.from_spec(spec, platform=there).fit(rows)
    >>> int(model.sizes_.sum())
    8
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
            raise OptionError(
                "name the owners' configuration files, and the dataset or the operator's "
                "configuration, by which one is created."
            )
        for config in (*owners, *([] if operator is None else [operator])):
            if not Path(config).is_file():
                raise ConfigError(
                    f"there is no configuration file {config}: give the path of the owner.toml or "
                    "operator.toml that `ppodc init` or `ppodc join-deployment` wrote."
                )
        self.owners, self.operator = owners, operator
        self.dataset, self.spec = dataset, spec
        self.start, self.timeout = start, timeout
        self.trial = False  # one person is all owners, who keep no register of releases

    def __deepcopy__(self, _memo: object) -> "RemotePlatform":
        return self  # clones of an estimator share it

    @property
    def owner_names(self) -> list[str]:
        """The names of the owners, as a spec has them."""
        return [load(path, OwnerConfig).name for path in self.owners]

    def run(self, spec: Spec, tables: Sequence[Any], verbose: bool = False) -> Outcome:
        """Upload the owners' tables, and wait for the result; the spec is the estimator's."""
        if len(tables) != len(self.owners):
            raise OptionError(
                f"{len(tables)} tables for {len(self.owners)} owners: give one table for each "
                "configuration file."
            )
        with ExitStack() as stack:
            owners = [stack.enter_context(Owner.connect(config)) for config in self.owners]
            shown = spec if self.operator is not None else self._shown(spec, owners[0])
            # before anything is created or sent
            encoded = EncodedTable.each(shown, tables, [owner.name for owner in owners])
            agreed = self._created(spec) if self.operator is not None else None
            shown = agreed or shown
            for owner, table in zip(owners, encoded, strict=True):
                self._upload(owner, shown, table, agreed or self.spec, verbose)
            if self.start is not None:
                self.start(shown.name)
            with _waiting(shown.name) as tell:
                results = [
                    owner.result(shown.name, timeout=self.timeout, on_wait=tell) for owner in owners
                ]
            return Outcome(shown, [owner.name for owner in owners], results)

    def _upload(
        self, owner: Owner, spec: Spec, table: EncodedTable, agreed: Agreed | None, verbose: bool
    ) -> None:
        """Upload a table; it must be the only one of its owner if owners get results by row."""
        receipt = owner.upload(
            spec.name,
            table,
            spec=agreed,
            progress=verbose,
            accept_differencing=None if self.trial else (),
        )
        if receipt.before and spec.kind.row_outputs(spec):
            if not receipt.repeated:
                owner.withdraw(spec.name, receipt.upload_id)
            raise OptionError(
                f"{owner.name} has given dataset {spec.name!r} other records before: its result "
                "would count the rows of all, not those of this table. `Owner.withdraw` takes "
                "earlier ones back, then fit again; `Owner.result` has the result of all."
            )

    def _created(self, spec: Spec) -> Spec:
        configs = [load(path, OwnerConfig) for path in self.owners]
        keys = {config.name: CurveKeys.load(config.key).public.decode() for config in configs}
        name = self.dataset or f"{spec.name}-{token_hex(8)}"
        made = replace(spec, name=name, owners=Members.of(keys))
        assert self.operator is not None  # noqa: S101 - asked for by the caller
        with Operator.connect(self.operator) as operator:
            operator.create(made, single_records=True)  # whoever fits has chosen it
        return made

    def _shown(self, spec: Spec, owner: Owner) -> Spec:
        assert self.dataset is not None  # noqa: S101 - checked when made
        shown = owner.spec(self.dataset)
        if other := _differences(spec, shown):
            raise OptionError(
                f"the job of dataset {self.dataset!r} is not this estimator's: {'; '.join(other)}. "
                "Nothing was sent. SecureKMeans.from_spec(owner.spec(name)) has its parameters."
            )
        return shown


def _differences(own: Spec, shown: Spec) -> list[str]:
    """Differences of the clouds' spec; names of columns count if the tables have any."""
    mine, theirs = _flat(own), _flat(shown)
    if own.schema.names == [f"x{i}" for i in range(len(own.schema.names))]:
        mine["names"] = theirs["names"]
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    keys = [key for key in keys if key not in _NO_MATTER]
    return [f"{key} is {theirs.get(key)} and not {mine.get(key)}" for key in keys]


def _anchor(spec: Spec) -> str:
    """The owners whose rows count in a join; also where the spec leaves it open."""
    join: Join | None = getattr(spec.job, "join", None)
    return "" if join is None else JoinedColumns.of(join, spec.schema).anchor.name


def _flat(spec: Spec) -> dict[str, Any]:
    columns, texts, document = spec.schema.columns, spec.schema.texts, spec.to_dict()
    if "linkage" in document or "join" in document:  # then columns are known by name
        columns = tuple(sorted(columns, key=lambda column: column.name))
    return {
        **document["job"],
        "max_links": getattr(spec.job, "max_links", None),  # also where it is the usual one
        "linkage": document.get("linkage"),
        "join": {k: v for k, v in document.get("join", {}).items() if k != "anchor"},
        "anchor": _anchor(spec),
        "held_by": [sorted(column.held_by) for column in columns],
        "ub": spec.schema.ub,
        "names": [column.name for column in columns],
        "bounds": [(column.low, column.high) for column in columns],
        "uses": [column.use for column in columns],
        "texts": sorted((text.name, text.signs, text.longest) for text in texts),
    }
