"""`ppodc link`: what a linkage will cost, what an owner's table looks like in it, and its links."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ppodc.cli.jobs import run_command
from ppodc.cli.links_file import LinksFile, write_links
from ppodc.cli.opened_results import show_result, waiting
from ppodc.cli.options import (
    Dataset,
    JsonFile,
    OnlyAsked,
    OwnConfig,
    err,
    file_to_write,
    out,
    show_table,
    write_json,
)
from ppodc.cli.plain_help import group
from ppodc.errors import OptionError

if TYPE_CHECKING:
    from ppodc.linkage.estimate import Estimate

link = group(
    help=(
        "Link records: find a rule, estimate its cost and privacy, preview blocks, fetch links, or "
        "link two tables without clouds. `ppodc sample-spec --kind linkage` prints a spec."
    )
)
SpecFile = Annotated[
    Path, typer.Argument(help="Spec file of the kind linkage, or of k-means with one inside.")
]

link.command("run")(run_command)


@link.command("estimate")
def estimate_command(
    spec: SpecFile,
    rows: Annotated[str, typer.Option(help="Rows of each owner, such as 5000,5000.")],
    json_file: JsonFile = None,
) -> None:
    """Tell what a linkage would cost: pairs, seconds, bytes and privacy. Nothing is sent.

    With blocks, rows are taken to spread evenly over the cells; real data leave more pairs. Beside
    it stands what comparing all pairs would cost, which tells the clouds nothing but sizes.
    """
    from ppodc.kmeans.linked.columns import linkage_of
    from ppodc.linkage.estimate import estimate, without_blocks
    from ppodc.spec import Spec

    try:
        counts = [int(part) for part in rows.split(",")]
    except ValueError:
        raise OptionError("--rows takes whole numbers with commas between them.") from None
    whole = Spec.load(spec)
    agreed, join = linkage_of(whole), getattr(whole.job, "join", None)
    if join is not None:
        from ppodc.linkage.joined.columns import JoinedColumns
        from ppodc.linkage.joined.estimate import estimate_join

        found = estimate_join(whole, JoinedColumns.of(join, whole.schema), counts)
    else:
        found = estimate(agreed, counts)
    compare_all = found.epsilon and join is None
    both = [found, without_blocks(agreed, counts)] if compare_all else [found]
    table = Table("", *(["with these blocks"] * bool(found.epsilon)), *_all_pairs(both, found))
    table.add_row("records", *(f"{each.rows:,}" for each in both))
    table.add_row("dummies beside them", *(f"{each.dummies:,}" for each in both))
    table.add_row("pairs compared", *map(_pairs_in_words, both))
    table.add_row("CPU seconds of each cloud", *(f"{each.seconds:,.1f}" for each in both))
    table.add_row("GB sent by each cloud", *(f"{each.gigabytes:,.3f}" for each in both))
    if found.joining_gigabytes:
        table.add_row("of these, to join: CPU seconds", f"{found.joining_seconds:,.1f}")
        table.add_row("of these, to join: GB", f"{found.joining_gigabytes:,.3f}")
        table.add_row("rows of the anchor, dummies among them", f"{found.joining_rows:,}")
    spends = (f"epsilon {e.epsilon:g}, delta {e.delta:g}" if e.epsilon else "nothing" for e in both)
    table.add_row("each owner spends", *spends)
    out.print(table)
    if told := found.dearer():
        err.print(f"warning: {told}", markup=False)
    write_json(json_file, found.figures())


def _all_pairs(both: "list[Estimate]", found: "Estimate") -> list[str]:
    """The heading of the last column, unless blocks of a join stand alone."""
    return ["all pairs"] if len(both) > 1 or not found.epsilon else []


def _pairs_in_words(found: "Estimate") -> str:
    if not found.epsilon:
        return f"{found.pairs:,}"
    if found.reduction < 0:
        return f"{found.pairs:,} ({1 - found.reduction:,.1f} times all)"
    return f"{found.pairs:,} ({found.reduction:.1%} saved)"


@link.command("preview")
def preview_command(
    spec: SpecFile,
    data: Annotated[Path, typer.Argument(help="Table: CSV (also .csv.gz), Parquet or .xlsx.")],
    header: Annotated[bool, typer.Option(help="Whether the CSV has a line of names.")] = True,
    only: OnlyAsked = False,
) -> None:
    """Look at your own table under a spec, on this machine: cells, dummies, own duplicates.

    Nothing is sent and nothing is charged; what cannot be used is named by row and column.
    """
    from ppodc.kmeans.linked.preview import preview_of
    from ppodc.records.read_table import Only
    from ppodc.spec import Spec

    agreed = Spec.load(spec)
    found = preview_of(agreed, Only(data) if only else data, header=header)
    out.print(
        f"{found.rows} rows in {found.cells} cells with {found.dummies} dummies (another draw "
        f"gives other numbers); the largest cell holds {found.largest_cell}"
    )
    if found.tree_of:
        out.print(
            f"those are cells of a tree over your rows: the real ones come from {found.tree_of}, "
            "whose tree all owners use",
            markup=False,
        )
    if found.epsilon:
        out.print(f"an upload would be charged epsilon {found.epsilon:g}, delta {found.delta:g}")
    out.print(f"rows that are the same as an earlier one: {found.duplicates} of all {found.rows}")
    sample = "all" if found.sampled == found.rows else f"a sample of {found.sampled}"
    table = Table("threshold", f"pairs among {sample} own rows")
    for threshold, pairs in found.matches:
        own = " (the spec's)" if threshold == found.threshold else ""
        table.add_row(f"{threshold:g}{own}", str(pairs))
    out.print(table)
    join = getattr(agreed.job, "join", None)
    if join is not None and join.relation == "1:1":
        out.print("own rows that match: none of them counts in a 1:1 join if a partner has them")


@link.command("suggest")
def suggest_command(
    spec: SpecFile,
    data: Annotated[Path, typer.Argument(help="Table of own rows, or a labelled sample.")],
    same: Annotated[
        str, typer.Option(help="Column of which equal entries mean the same person.")
    ] = "",
    frequencies: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=FILE: public counts of texts (CSV with text and count)."),
    ] = None,
    overlap: Annotated[
        float, typer.Option(help="Share of your people whom another owner has too.")
    ] = 0.5,
    to: Annotated[
        Path | None,
        typer.Option(help="Write the spec with this rule here.", callback=file_to_write),
    ] = None,
    header: Annotated[bool, typer.Option(help="Whether the CSV has a line of names.")] = True,
) -> None:
    """Suggest weights and a threshold for a rule of fields, on this machine; nothing is sent.

    Weights come from a labelled sample (--same) or from duplicates among your own rows. Precision
    and recall are expected ones, of two tables like yours, without blocks.
    """
    from ppodc.linkage.frequency_file import frequencies_of
    from ppodc.linkage.suggest import suggest
    from ppodc.spec import Spec

    public = dict(frequencies_of(each) for each in frequencies or ())
    agreed = Spec.load(spec)
    found = suggest(agreed, data, same=same, frequencies=public, overlap=overlap, header=header)
    show_table(*found.table())
    source = "a labelled sample" if found.labelled else "duplicates that nobody has marked"
    out.print(
        f"threshold {found.rule.threshold} of {found.rule.total}; expected precision "
        f"{found.precision:.3f}, recall {found.recall:.3f} (learnt from about {found.taught_by:,} "
        f"pairs of {source})",
        markup=False,
    )
    if to is not None:
        to.write_text(found.spec.to_toml(), encoding="utf-8")


@link.command("result")
def result_command(
    name: Dataset,
    config: OwnConfig,
    wait: Annotated[bool, typer.Option(help="Wait until the job is done.")] = True,
    links: LinksFile = None,
    json_file: JsonFile = None,
) -> None:
    """Fetch both halves of a linkage and open it: partners of own rows, or the number of links."""
    from client.owner import Owner

    with Owner.connect(config) as owner, waiting(name) as tell:
        result = owner.result(name, wait=wait, on_wait=tell)
        own_rows = result.own_rows().get("partners", []) if links is not None else []
        names = owner.row_names(name, len(own_rows)) if own_rows else {}
    show_result(result)
    if links is not None:
        write_links(links, result, ["owner", "owner_upload", "owner_row"], names)
    write_json(json_file, result.figures())
