"""`ppodc ledger`: what each cloud has written down, whole or by dataset, and both compared."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec import to_builtins

from ppodc.cli.options import JsonFile, config_option, err, out, show_table, write_json
from ppodc.errors import PpodcError

if TYPE_CHECKING:
    from client.both_clouds import Clouds
    from ppodc.service.ledger_entries import Entry

ledger = typer.Typer()


@ledger.command("ledger")
def ledger_command(
    config: Annotated[
        Path,
        config_option("owner.toml, operator.toml or auditor.toml; each reads what concerns it."),
    ],
    what: Annotated[
        Literal["show", "compare"],
        typer.Argument(help="show: one cloud's ledger. compare: both, and where they differ."),
    ] = "show",
    cloud: Annotated[int, typer.Option(min=1, max=2, help="Whose ledger: 1 or 2.")] = 1,
    dataset: Annotated[str, typer.Option(help="Only entries about this dataset.")] = "",
    summary: Annotated[
        bool, typer.Option("--summary", help="How often and when, by dataset and event.")
    ] = False,
    since: Annotated[
        tuple[int, str] | None,
        typer.Option(
            metavar="ENTRY HASH",
            help="Check that it still has this entry, which you noted as its head; show what came "
            "after it.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Print the ledger of a cloud, which says who learnt what, and check its hash chain.

    The last line has the number of entries and the head. Whoever notes them can later see, with
    --since, that nothing was cut off or written anew. This program notes them by itself as well,
    and says so if a cloud has lost what it noted. An auditor reads all entries.
    """
    from client.both_clouds import Clouds
    from client.ledger_heads import LedgerHeads
    from ppodc.service.ledger_entries import check_noted

    clouds, loaded = Clouds.from_file(config)
    with clouds:
        heads = LedgerHeads(loaded)
        lost = heads.check(clouds)
        for told in lost:
            err.print(f"warning: {told}", markup=False)
        for each in () if lost else heads.lost():
            noticed = each.noticed[:10]
            err.print(
                f"note: on {noticed} cloud {each.cloud} had lost entry {each.number} of its "
                "ledger, which was noted before.",
                markup=False,
            )
        if what == "compare":
            _compare(clouds, dataset, json_file)
            return
        entries = clouds.ledger(cloud)
    first = 0 if since is None else max(0, since[0])
    asked = [entry for entry in entries[first:] if not dataset or entry.dataset == dataset]
    shown = [entry for entry in asked if not entry.hidden]
    if dataset and not shown:
        out.print(f"no entry about dataset {dataset!r} that is yours to read", markup=False)
    elif summary:
        _show_summary(shown)
    else:
        _show(shown)
    length, head = _checked(entries)
    if since is not None:
        check_noted(entries, *since)
    hidden = sum(entry.hidden for entry in entries[first:])
    others = f", {hidden} of them not yours to read" if hidden else ""
    out.print(f"chain of {length} entries holds{others}; head {length} {head}")
    lines = [{**to_builtins(entry), "detail": json.loads(entry.detail)} for entry in shown]
    write_json(json_file, {"entries": lines, "length": length, "head": head})


def _show(entries: "list[Entry]") -> None:
    from ppodc.service.ledger_stories import shown_time

    headings = ("no.", "time", "event", "dataset", "detail", "who learnt what", "hash")
    rows = [
        (str(e.number), shown_time(e), e.event, e.dataset, *e.describe(), e.hash[:16])
        for e in entries
    ]
    show_table(headings, rows)


def _show_summary(entries: "list[Entry]") -> None:
    from ppodc.service.ledger_stories import summary

    headings = ("dataset", "event", "times", "first", "last", "who learnt what")
    rows = [(e.dataset, e.event, str(e.count), e.first, e.last, e.learnt) for e in summary(entries)]
    show_table(headings, rows)


def _checked(entries: "list[Entry]", whose: str = "the chain") -> tuple[int, str]:
    """(entries, head) of a chain that holds."""
    from ppodc.service.ledger_entries import verify

    found = verify(iter(entries))
    if found.broken is not None:
        raise PpodcError(f"{whose} breaks at entry {found.broken}: {found.reason}.")
    return found.entries, found.head


def _compare(clouds: "Clouds", dataset: str, json_file: Path | None) -> None:
    """Both ledgers side by side: every event that one cloud alone has written down."""
    from ppodc.service.ledger_entries import check_crossed
    from ppodc.service.ledger_stories import shown_time, told_by_one

    clouds.at(2)  # a single server has nothing to compare with
    both = {number: clouds.ledger(number) for number in clouds.numbers}
    ends = {
        number: _checked(entries, f"the chain of cloud {number}")
        for number, entries in both.items()
    }
    found = [
        (cloud, entry)
        for cloud, entry in told_by_one(both[1], both[2])
        if dataset in ("", entry.dataset)
    ]
    headings = ("only at", "no.", "time", "event", "dataset", "detail")
    rows = [
        (f"cloud {n}", str(e.number), shown_time(e), e.event, e.dataset, e.describe()[0])
        for n, e in found
    ]
    if rows:
        show_table(headings, rows)
    hidden = sum(entry.hidden for entries in both.values() for entry in entries)
    for number, (length, head) in ends.items():
        out.print(f"cloud {number}: chain of {length} entries holds; head {length} {head}")
    scope = f" ({hidden} entries are not yours to read)" if hidden else ""
    if not rows:
        out.print(f"both clouds tell the same{scope}")
    lines = [
        {"cloud": n, **to_builtins(entry), "detail": json.loads(entry.detail)} for n, entry in found
    ]
    heads = {f"cloud{n}": {"length": length, "head": head} for n, (length, head) in ends.items()}
    write_json(json_file, {"only_at_one": lines, **heads})
    for number in (1, 2):
        notes = check_crossed(both[number], both[3 - number])
        out.print(f"cloud {number}: {notes} heads of the other ledger, all of them there")
    if rows:
        raise PpodcError(
            f"{len(rows)} entries are in one ledger alone{scope}. An upload or a job under way "
            "explains some; else ask both operators."
        )
