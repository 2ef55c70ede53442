"""A linkage of an owner's own table as a page: its cells, its duplicates, its cost.

All of it is worked out on this computer from the owner's own rows; nothing is sent or charged.
"""

from pathlib import Path

from client.desk.pages import count, number, plural
from ppodc.errors import InputError
from ppodc.spec import Spec

_MOST_ROWS = 20_000  # that a page works through while somebody waits


def preview_lines(spec: Spec, table: Path, rows: int) -> list[tuple[str, str]] | None:
    """(what, figure) of a linkage or of a job that links first; None for other jobs."""
    dedup, join = getattr(spec.job, "dedup", None), getattr(spec.job, "join", None)
    if spec.job.kind != "linkage" and dedup is None and join is None:
        return None
    if rows > _MOST_ROWS:
        return [("Rows", f"{count(rows)}: too many for a preview on this page")]
    from ppodc.kmeans.linked.columns import linkage_of
    from ppodc.kmeans.linked.preview import preview_of
    from ppodc.linkage.estimate import estimate
    from ppodc.linkage.joined.columns import JoinedColumns
    from ppodc.linkage.joined.estimate import estimate_join

    try:
        seen = preview_of(spec, table)
        owners = 2 if spec.owners is None else max(2, len(spec.owners.keys))
        if join is None:
            cost = estimate(linkage_of(spec), [rows] * owners)
        else:
            joined = JoinedColumns.of(join, spec.schema)
            cost = estimate_join(spec, joined, [rows] * owners)
    except InputError as error:
        return [("Preview", str(error).replace(str(table), "your table"))]
    lines = [
        ("Rows that equal an earlier row of yours", count(seen.duplicates)),
        ("Cells that your rows fall into", count(seen.cells)),
        ("Dummy rows that hide how full a cell is", count(seen.dummies)),
    ]
    for threshold, pairs in seen.matches:
        if threshold == seen.threshold:
            words = f"Pairs that match among {plural(seen.sampled, 'row')} of yours, at random"
            lines.append((words, count(pairs)))
    if join is not None and join.relation == "1:1":
        lines.append(("Rows of yours that match each other", "none of them counts in a 1:1 join"))
    if seen.epsilon:
        lines.append(("Charged to your privacy budget (epsilon)", number(seen.epsilon)))
    every = "both owners" if owners == 2 else f"all {owners} owners"
    lines.append((f"Pairs compared if {every} have as many rows", count(cost.pairs)))
    lines.append(("About, on one pair of workers", _span(cost.seconds)))
    return lines


def _span(seconds: float) -> str:
    if seconds < 90:
        return plural(max(1, round(seconds)), "second")
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
