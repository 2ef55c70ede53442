"""`ppodc privacy`, `ppodc budget`, and running a job of the kind `local`."""

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ppodc.cli.options import (
    OwnConfig,
    config_option,
    err,
    on_interrupt,
    out,
    show_table,
    write_json,
)
from ppodc.cli.plain_help import PlainGroup, group
from ppodc.errors import ConfigError, OptionError

if TYPE_CHECKING:
    from ppodc.local_dp.owner_reports import OwnerReports
    from ppodc.service.config import CollectorConfig
    from ppodc.service.job_state import JobState
    from ppodc.spec import Spec

privacy = group(help="Explain what a job guarantees for one record, and what that costs.")
budget = typer.Typer(cls=PlainGroup)
BudgetConfig = Annotated[Path | None, config_option("owner.toml of this owner.", needed=False)]
BudgetFolder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        help="Folder of a budget instead, such as ppodc-privacy of `ppodc link pair`.",
        show_default=False,
    ),
]


@privacy.command("explain")
def explain_command(
    spec: Annotated[Path, typer.Argument(help="Spec file of any kind.")],
    rows: Annotated[
        int | None, typer.Option(min=1, help="Records of all owners; else as the spec expects.")
    ] = None,
) -> None:
    r"""Say before any upload what one record gives away, and what accuracy to expect.

    For jobs that spend privacy: local reports, k-means with \[privacy], the cells of a linkage.
    """
    from ppodc.spec import Spec

    show_explanation(Spec.load(spec), rows)


def show_explanation(spec: "Spec", rows: int | None = None) -> None:
    """The table and the notes of `privacy explain`."""
    from ppodc.kmeans.linked.columns import linkage_of
    from ppodc.kmeans.private import explain as private_kmeans
    from ppodc.linkage import explain as linkage
    from ppodc.local_dp import explain as local

    spec = linkage_of(spec)  # of k-means what its cells cost, if it links records
    kinds = {"local": local, "private-kmeans": private_kmeans, "linkage": linkage}
    if spec.job.kind not in kinds:
        raise OptionError(
            f"a job of the kind {spec.job.kind!r} adds no noise and spends no budget. "
            "`ppodc spec` shows what is revealed to whom."
        )
    headings, lines, notes = kinds[spec.job.kind].explain(spec, rows)
    table = Table(*headings)
    for line in lines:
        table.add_row(*line)
    out.print(table)
    for note in notes:
        out.print(note, markup=False)


@privacy.command("audit")
def audit_command(
    spec: Annotated[Path, typer.Argument(help="Spec file of the kind local.")],
    trials: Annotated[int, typer.Option(min=100, help="Reports of each of two inputs.")] = 100_000,
) -> None:
    """Try to tell two far records apart by their reports: a lower bound of epsilon, at 95 %."""
    from ppodc.local_dp.audit import audit
    from ppodc.local_dp.kind import form_of
    from ppodc.spec import Spec

    loaded = Spec.load(spec)
    found = audit(loaded, trials)
    out.print(f"seen in {trials:,} reports of each: epsilon at least {found:.3f} (95 %)")
    out.print(str(form_of(loaded).guarantee), markup=False)


@budget.callback(invoke_without_command=True)
def budget_options(
    context: typer.Context, config: BudgetConfig = None, folder: BudgetFolder = None
) -> None:
    """Show an owner's privacy budget, or make a new report key."""
    if context.invoked_subcommand is None:
        budget_command(config, folder)


@budget.command("show")
def budget_command(config: BudgetConfig = None, folder: BudgetFolder = None) -> None:
    """List what was charged, for which datasets and files, and what is left."""
    owner, limit = _chosen(config, folder)
    rows = []
    for drawing in owner.drawings():
        epsilon, delta = drawing.cost
        what = "; ".join(drawing.uses) or "not noted"
        rows.append([drawing.name[:24], what, f"{float(epsilon):.4g}", f"{float(delta):.3g}"])
    if rows:
        show_table(["charge", "for", "epsilon", "delta"], rows)
    spent, people = owner.spent(), owner.people.people()
    most = "" if limit is None else f", of at most {float(limit):g}"
    out.print(f"spent: epsilon {spent}{most}", markup=False)
    if people:
        out.print(
            f"besides, {people:,} people with accounts of their own (--id): at most epsilon "
            f"{owner.people.most()}",
            markup=False,
        )


@budget.command("forget")
def budget_forget_command(
    config: OwnConfig,
    charge: Annotated[
        bool, typer.Option("--charge", help="Say that you know: what is sent again costs again.")
    ] = False,
) -> None:
    """Make a new report key when the old one is lost. What was spent stays spent."""
    owner, _ = _owner(config)
    if not charge:
        raise OptionError(
            "with a new key the same records get new noise, which tells more about them: whatever "
            "is uploaded again is charged again. Add --charge to say that this is meant."
        )
    owner.forget()
    out.print("a new report key is made; everything uploaded from now on is charged anew")


def _owner(config: Path) -> tuple["OwnerReports", Fraction]:
    from ppodc.local_dp.owner_reports import OwnerReports
    from ppodc.service.config import OwnerConfig, load

    loaded = load(config, OwnerConfig)
    limit = Fraction(loaded.max_epsilon)
    return OwnerReports(loaded.privacy, limit), limit


def _chosen(config: Path | None, folder: Path | None) -> tuple["OwnerReports", Fraction | None]:
    """The budget asked for; of `ppodc link pair` the limit is said with every charge, not there."""
    from ppodc.local_dp.owner_reports import OwnerReports

    if folder is None:
        if config is not None:
            return _owner(config)
        raise OptionError(
            "whose budget? Give --config owner.toml, or --folder with the one of `ppodc link pair`."
        )
    if not (folder / "budget.json").exists():
        raise OptionError(f"there is no budget in {folder}: nothing was charged to it.")
    return OwnerReports(folder), None


def run_collector(
    config: "CollectorConfig", name: str, workers: int | None, json_file: Path | None
) -> None:
    """Cluster the reports of a dataset, at the collector: here, or on its cluster's workers."""
    from cloud1.collector import collect
    from ppodc.service.store import Store

    count = workers or config.workers
    if workers and not config.ray_address:
        raise ConfigError("this collector has no cluster: set ray_address in its configuration.")
    with ExitStack() as stack:
        state = f"no report is lost, nothing was revealed; go on with: ppodc resume {name}"
        stack.enter_context(on_interrupt(lambda: state))
        store = stack.enter_context(Store.open(config.store, "cloud1"))
        cluster = None
        if config.ray_address:
            from ppodc.cluster.ray_cluster import RayPlacement
            from ppodc.cluster.ray_workers import RayWorkers

            place = RayPlacement(config.ray_address, "cloud1", count)
            cluster = stack.enter_context(RayWorkers(place))
        end = collect(store, name, _show_progress, cluster, count)
    write_json(json_file, end.figures())
    out.print(f"{name}: done, {end.m} reports. {end.privacy}", markup=False)
    out.print("owners fetch the result with: ppodc result " + name)


def cancel_collector(config: "CollectorConfig", name: str) -> "JobState":
    """Stop a job of a collector for good."""
    from cloud1.collector import cancel
    from ppodc.service.store import Store

    with Store.open(config.store, "cloud1") as store:
        return cancel(store, name)


def _show_progress(done: int, m: int) -> None:
    err.print(f"{done:,} of {m:,} reports read")
