"""A result as a page, a report or a notebook shows it, whatever kind of job it is of.

Results answer `table`, `summary`, `figures` and `own_rows`; what more a kind has (centres, links,
totals) is shown where it is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from client.desk import plots
from client.desk.pages import count, number, plural
from ppodc.records.schema import Schema

MOST_COLUMNS = 40  # of a heat map
MOST_ROWS = 500  # of a table of own rows on a page
MOST_VALUES = 6  # own values beside a link


@dataclass(frozen=True, slots=True)
class OwnRows:
    """An owner's own rows beside a result; `labels` is empty where none are known."""

    values: NDArray[np.float64]  # by column of the schema
    labels: list[int]
    ids: list[str]
    id_name: str = ""
    cells: list[list[str]] = field(default_factory=list)  # as written, by column that is compared
    names: list[str] = field(default_factory=list)  # of these columns


@dataclass(frozen=True, slots=True)
class ClusterLine:
    """One cluster in the list of all."""

    number: int
    size: str
    sign: Markup
    bar: Markup
    own: str
    stands_out: str


@dataclass(frozen=True, slots=True)
class HeatLine:
    """One column over all centres or columns: (class, text) of each, the mean and the limits."""

    name: str
    cells: list[tuple[str, str]]
    mean: str = ""
    limits: str = ""


@dataclass(slots=True)
class ResultView:
    """A result as a page shows it."""

    lead: str
    exact: bool
    notes: list[str] = field(default_factory=list)  # how far the figures may be trusted
    clusters: list[ClusterLine] = field(default_factory=list)
    heat: list[HeatLine] = field(default_factory=list)
    heat_heads: list[tuple[Markup, str]] = field(default_factory=list)
    more_columns: int = 0
    headings: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    ks: list[int] = field(default_factory=list)
    k: int = 0
    elbow: Markup | None = None
    elbow_rows: list[tuple[int, str]] = field(default_factory=list)
    scatter: Markup | None = None
    drawn: bool = False  # whether the scatter plot has own rows
    scatter_rows: list[list[str]] = field(default_factory=list)
    correlations: list[HeatLine] = field(default_factory=list)
    links: list[list[str]] = field(default_factory=list)
    link_headings: list[str] = field(default_factory=list)
    more_links: int = 0
    privacy: str = ""
    meant: list[str] = field(default_factory=list)  # words that a page explains


def view(
    result: Any,
    *,
    min_size: int = 0,
    own: OwnRows | None = None,
    k: int = 0,
    axes: tuple[int, int] = (0, 1),
) -> ResultView:
    """Of any result; `k` chooses among several numbers of clusters, `axes` two columns."""
    privacy = getattr(result, "privacy_", None)
    made = ResultView(_lead(result), privacy is None)
    made.privacy = "" if privacy is None else str(privacy)
    made.notes = _notes(result)
    if hasattr(result, "by_k"):
        made.ks = sorted(result.by_k)
        made.k = k if k in result.by_k else made.ks[0]
        inertias = {each: float(value) for each, value in result.inertias_.items()}
        if len(inertias) > 1:
            found = sorted(inertias.items())
            made.elbow = plots.line(
                found, "clusters", "inertia", "Inertia by number of clusters", zero=True
            )
            made.elbow_rows = [(each, number(value, 6)) for each, value in found]
        result = result.by_k[made.k]
    if hasattr(result, "cluster_centers_"):
        _clusters(made, result, own, min_size)
        _scatter(made, result, own, axes)
        made.meant = ["cluster", "centre"]
        made.meant += ["round"] if hasattr(result, "n_iter_") else []
        made.meant += ["inertia"] if made.elbow else []
    elif getattr(result, "links_", None) is not None:
        _links(made, result, own)
        made.headings, made.rows = _table(result)
        made.meant = ["partner"]
    else:
        made.headings, made.rows = _table(result)
        _correlations(made, result)
    made.meant += [] if made.exact else ["noise", "epsilon"]
    made.meant.append("half")
    return made


def own_labels(result: Any, k: int = 0) -> list[int]:
    """The labels that came with a result, for one number of clusters."""
    if hasattr(result, "by_k"):
        result = result.by_k[k if k in result.by_k else min(result.by_k)]
    labels = getattr(result, "labels_", None)
    return [] if labels is None else labels.tolist()


def _lead(result: Any) -> str:
    """Describe the result in a sentence or two."""
    several = getattr(result, "by_k", None)
    one = next(iter(several.values())) if several else result
    if hasattr(one, "n_iter_") and hasattr(one, "sizes_"):
        what = f"{', '.join(map(str, several))} clusters" if several else _clusters_of(one)
        ended = "by itself" if one.converged_ else "as agreed"
        return f"{what}. It ended {ended} after {plural(one.n_iter_, 'round')}."
    partners = getattr(result, "partners_", None)
    if partners is not None:
        found = count(sum(map(bool, partners)))
        return f"Rows of yours with a partner: {found} of {count(len(partners))}."
    first = str(result.summary()).split("\n")[0].partition(". ")[0].strip()
    first = first[:1].upper() + first[1:]
    return first if first.endswith(".") else f"{first}."


def _notes(result: Any) -> list[str]:
    """Sentences on how reliable the figures are, and on what they leave out."""
    notes = [result.untold()] if hasattr(result, "untold") else []
    if not getattr(result, "usable_", True):
        notes += str(result.summary()).split("\n")[1:]
    if hasattr(result, "size_deviation_"):
        deviation = number(result.size_deviation_, 3)
        notes.append(
            f"Clusters are put together from {len(result.counts_)} points. The count of each has "
            f"noise with a standard deviation of {deviation}."
        )
    return [note[:1].upper() + note[1:] for note in notes if note]


def _clusters_of(result: Any) -> str:
    if not getattr(result, "sized", True):
        return f"{plural(len(result.sizes_), 'cluster')}, whose sizes nobody learns"
    about = "" if getattr(result, "privacy_", None) is None else "about "
    records = count(round(float(np.sum(result.sizes_))))
    kind = "joined rows" if getattr(result, "joined", False) else "records"
    return f"{plural(len(result.sizes_), 'cluster')} of {about}{records} {kind}"


def _size(result: Any, size: float) -> str:
    return count(round(size)) if getattr(result, "sized", True) else "not told"


def _table(result: Any) -> tuple[list[str], list[list[str]]]:
    headings, rows = result.table()
    named = [str(each)[:1].upper() + str(each)[1:] for each in headings]
    return named, [[_cell(each) for each in row] for row in rows]


def _cell(value: Any) -> str:
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | np.integer):
        return count(int(value))
    return number(float(value), 6)


# ----------------------------------------------------------------------------------- clusters


def _clusters(made: ResultView, result: Any, own: OwnRows | None, min_size: int) -> None:
    schema: Schema = result.schema
    centres = np.asarray(result.cluster_centers_, np.float64)
    sizes = np.asarray(result.sizes_, np.float64)
    told = [h for h in range(len(sizes)) if not np.isnan(centres[h]).any()]
    weights = np.maximum(sizes[told], 0)
    mean = (
        np.average(centres[told], axis=0, weights=weights if weights.sum() else None)
        if told
        else np.zeros(centres.shape[1])
    )
    width = np.array([column.high - column.low for column in schema.columns])
    apart = (centres - mean) / width
    most = float(np.nanmax(np.abs(apart))) if told else 0.0
    words = getattr(result, "modes_", None)
    for h in range(len(sizes)):
        known = h in told
        made.clusters.append(
            ClusterLine(
                h,
                _size(result, sizes[h]) if known else _hidden(min_size),
                plots.sign(h),
                plots.share(float(sizes[h]), float(sizes.max(initial=0)), h),
                "" if own is None or not own.labels else count(own.labels.count(h)),
                _stands_out(apart[h], schema, most) if known else _why(result, min_size),
            )
        )
    made.heat_heads = [(plots.sign(h), str(h)) for h in told]
    for s, column in enumerate(schema.columns[:MOST_COLUMNS]):
        cells = []
        for h in told:
            level = 0 if most == 0 else round(3 * apart[h, s] / most)
            text = words[h][s] if words is not None and column.values else centres[h, s]
            cells.append((f"h{level}" if not column.values else "", _cell(text)))
        limits = ", ".join(column.values[:3]) if column.values else _limits(column)
        shown = "" if column.values else number(float(mean[s]))
        made.heat.append(HeatLine(column.name, cells, shown, limits))
    made.more_columns = max(0, len(schema.columns) - MOST_COLUMNS)


def _correlations(made: ResultView, result: Any) -> None:
    """Of totals with `cross`: every two columns, coloured by strength."""
    if getattr(result, "var_", None) is not None:
        made.meant.append("variance")
    found = getattr(result, "corr_", None)
    if found is None:
        return
    made.meant.append("correlation")
    made.more_columns = max(0, len(found) - MOST_COLUMNS)
    for name, row in zip(result.columns[:MOST_COLUMNS], found, strict=False):
        cells = [("" if np.isnan(r) else f"h{round(3 * r)}", number(r, 3)) for r in row]
        made.correlations.append(HeatLine(name, cells[:MOST_COLUMNS]))


def _limits(column: Any) -> str:
    return f"{number(column.low)} to {number(column.high)}"


def _hidden(min_size: int) -> str:
    return "not told" if min_size > 1 else "0"


def _why(result: Any, min_size: int) -> str:
    if getattr(result, "joined", False):
        return "No centre: too few joined rows, as agreed."
    if min_size > 1:
        return f"No centre: fewer than {min_size} of its records are of others, as agreed."
    return "No centre: no record is in it."


def _stands_out(apart: NDArray[np.float64], schema: Schema, most: float) -> str:
    order = sorted(range(len(apart)), key=lambda s: -abs(apart[s]))
    named = [
        f"{'high' if apart[s] > 0 else 'low'} {schema.columns[s].name}"
        for s in order[:3]
        if most and abs(apart[s]) >= most / 3
    ]
    return ", ".join(named) or "near the mean"


def _scatter(made: ResultView, result: Any, own: OwnRows | None, axes: tuple[int, int]) -> None:
    columns = result.schema.columns
    if len(columns) < 2:
        return
    a, b = (axis if 0 <= axis < len(columns) else 0 for axis in axes)
    centres = [
        (float(row[a]), float(row[b]), h)
        for h, row in enumerate(np.asarray(result.cluster_centers_, np.float64))
        if not np.isnan(row).any()
    ]
    points: list[tuple[float, float, int]] = []
    # rows of an owner lack columns that a join brings
    whole = own is not None and not getattr(result, "joined", False)
    if own is not None and whole and own.labels and own.values.shape[1] == len(columns):
        points = [
            (float(row[a]), float(row[b]), label)
            for row, label in zip(own.values, own.labels, strict=True)
        ]
    made.drawn = bool(points)
    made.scatter = plots.scatter(points, centres, columns[a], columns[b])
    named = [*(("centre", *each) for each in centres), *(("your row", *each) for each in points)]
    made.scatter_rows = [
        [what, number(x, 6), number(y, 6), str(cluster)]
        for what, x, y, cluster in named[:MOST_ROWS]
    ]


# -------------------------------------------------------------------------------------- links


def _links(made: ResultView, result: Any, own: OwnRows | None) -> None:
    """Own rows with partners: own row and id, and where the partner stands in its owner's table."""
    named = own.ids if own is not None and len(own.ids) == len(result.partners_) else None
    id_name = own.id_name if own is not None and named is not None else ""
    values = own.cells if own is not None and len(own.cells) == len(result.partners_) else None
    names = own.names[:MOST_VALUES] if own is not None and values is not None else []
    made.link_headings = ["Your row", *([id_name] if id_name else []), *names, "Partner", "Its row"]
    many = result.max_links
    lines: list[list[str]] = []
    for row, (partners, links) in enumerate(zip(result.partners_, result.links_, strict=True)):
        about = [count(row + 1), *([named[row]] if named is not None else [])]
        about += values[row][:MOST_VALUES] if values is not None else []
        if partners > many:
            lines.append([*about, f"more than {many}", "not told"])
        for owner, upload, place in links:
            where = f"{count(place + 1)}" + (f" of its upload {upload + 1}" if upload else "")
            lines.append([*about, owner, where])
    made.links, made.more_links = lines[:MOST_ROWS], max(0, len(lines) - MOST_ROWS)


def own_columns(result: Any, own: OwnRows | None) -> tuple[list[str], list[Sequence[Any]]]:
    """The file of own rows: ids if known, then what the result says of each row."""
    columns: dict[str, list[Any]] = {}
    rows = dict(result.own_rows())
    if not rows and own is not None and own.labels:
        rows = {"label": own.labels}
    if own is not None and own.ids and all(len(v) == len(own.ids) for v in rows.values()):
        columns[own.id_name] = own.ids
    columns |= rows
    if getattr(result, "links_", None) is not None:
        columns["links"] = [
            "; ".join(f"{owner} row {place + 1}" for owner, _, place in links)
            for links in result.links_
        ]
    return list(columns), list(zip(*columns.values(), strict=True)) if columns else []
