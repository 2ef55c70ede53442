"""An owner's result: fetched once, shown in real units, beside own rows if the owner wants it.

Own rows are read from a table that the owner chooses again. It lies in the private folder while the
page is used, and is deleted with the desk's end or by a button.
"""

import csv
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from client.desk.agreement import agreement, counted, kind_in_words, smallest
from client.desk.drafts import Choices, Draft, sweep
from client.desk.incoming import receive_table
from client.desk.owner_desk import OwnerDesk
from client.desk.report import report
from client.desk.result_view import OwnRows, own_columns, own_labels, view
from client.desk.screens import Visit, csv_text, download, go, guarded, route
from client.desk.table_file import column_of, lines_of, wanted
from client.owner import Owner
from ppodc.errors import InputError, TableError, printable
from ppodc.records.schema import Column
from ppodc.spec import Spec

_SECOND_CLOUD = 20.0  # seconds: cloud 2 hears of a job's end from cloud 1


class ResultScreens:
    """Results that were fetched, and the tables beside them."""

    def __init__(self, desk: OwnerDesk) -> None:
        self._pages, self._owner, self._folder = desk.pages, desk.owner, desk.folder / "beside"
        self._study, self._name, self._alone = desk.study, desk.config.name, desk.alone
        self._fetched: dict[str, tuple[Spec, Any]] = {}
        self._fetching = threading.Lock()
        self._tables: dict[str, Draft] = {}
        sweep(self._folder)  # of a desk that was killed

    def routes(self, study: str) -> Sequence[BaseRoute]:
        page = self._pages
        return [
            route(page, f"{study}/result", self.result),
            guarded(page, f"{study}/own", self.own, "PUT"),
            route(page, f"{study}/own", self.chosen, "POST"),
            route(page, f"{study}/own/forget", self.forget, "POST"),
            route(page, f"{study}/result.csv", self.csv),
            route(page, f"{study}/result.json", self.json),
            route(page, f"{study}/rows.csv", self.rows),
            route(page, f"{study}/report.html", self.report),
        ]

    def close(self) -> None:
        """Delete the tables that were chosen beside results."""
        sweep(self._folder)

    def _result(self, name: str) -> tuple[Spec, Any]:
        """Fetched once: each fetching is written into both ledgers."""
        with self._fetching:
            if name not in self._fetched:
                spec = self._owner().spec(name)
                self._fetched[name] = spec, self._owner().result(name, timeout=_SECOND_CLOUD)
            return self._fetched[name]

    def _table(self, name: str) -> Draft:
        if name not in self._tables:
            self._tables[name] = Draft(self._folder, name, self._name)
        return self._tables[name]

    def _own(self, name: str, k: int = 0) -> OwnRows | None:
        """Own rows with their labels, from the table chosen again."""
        draft = self._table(name)
        if not draft.exists:
            return None
        spec, result = self._result(name)
        choices = draft.choices()
        ready = draft.ready(self._owner(), spec)
        values = _values(ready.path, spec, self._name)
        labels = own_labels(result, k) or _found_labels(self._owner(), spec, result, ready.path)
        partners = getattr(result, "partners_", None)
        expected = len(partners) if partners is not None else len(labels)
        if expected and expected != len(values):
            raise TableError(
                f"This table has {len(values)} rows, and you sent {expected}. Choose the table "
                "that you sent."
            )
        ids = column_of(draft.original, choices.ids) if choices.ids else []
        if ids and choices.leave_out:
            bad, lines = draft.look(spec).bad, lines_of(draft.original)
            ids = [each for each, line in zip(ids, lines, strict=True) if line not in bad]
        names = [column.name for column in wanted(spec)]
        cells = [] if partners is None else _cells(ready.path, len(names))
        return OwnRows(values, labels, ids, choices.ids, cells, names)

    # ---------------------------------------------------------------------------------- pages

    def result(self, visit: Visit) -> Response:
        name = visit.path["name"]
        if name not in self._fetched and self._study(name).at.step != "result":
            return go(self._pages, f"/study/{name}")
        spec, result = self._result(name)
        k, axes = _chosen(visit)
        draft, said = self._table(name), ""
        own: OwnRows | None = None
        try:
            own = self._own(name, k)
        except InputError as error:
            said = str(error)
        shown = view(result, min_size=smallest(spec), own=own, k=k, axes=axes)
        if self._alone:
            shown.meant.remove("half")
        columns = [] if not hasattr(result, "cluster_centers_") else result.schema.columns
        if hasattr(result, "by_k"):
            columns = result.by_k[shown.k].schema.columns
        return self._pages.page(
            "owner_result.html",
            here="/",
            name=name,
            spec=spec,
            kind=kind_in_words(spec),
            shown=shown,
            words=agreement(spec, self._name),
            axes=axes,
            columns=columns,
            min_size=smallest(spec),
            counted=counted(spec),
            own=own,
            joined=_joins(spec),
            alone=self._alone,
            has_rows=bool(result.own_rows()) or own is not None,
            wants_rows=_wants_rows(spec, result),
            file=draft.choices() if draft.exists else None,
            file_columns=draft.look(spec).columns if draft.exists else [],
            said=said,
        )

    async def own(self, request: Request) -> Response:
        name = request.path_params["name"]
        spec, _ = await run_in_threadpool(self._result, name)
        draft = self._table(name)
        await receive_table(request, draft.place())
        shown = printable(request.query_params.get("name", ""))[:200]
        draft.choose(Choices(name=shown, digest=spec.digest))
        try:
            found = await run_in_threadpool(draft.look, spec)
            if found.bad:  # as it was sent: without the rows that had a problem
                draft.choose(Choices(name=shown, digest=spec.digest, leave_out=True))
            await run_in_threadpool(self._own, name)
        except InputError:
            draft.forget()
            raise
        return go(self._pages, f"/study/{name}/result", script=True)

    def chosen(self, visit: Visit) -> Response:
        """Which column names the owner's rows."""
        name, draft = visit.path["name"], self._table(visit.path["name"])
        spec, _ = self._result(name)
        if draft.exists:
            found, old = draft.look(spec), draft.choices()
            ids = visit.field("ids")
            chosen = ids if ids in found.columns else ""
            draft.choose(msgspec.structs.replace(old, ids=chosen))
        return go(self._pages, f"/study/{name}/result")

    def forget(self, visit: Visit) -> Response:
        name = visit.path["name"]
        self._table(name).forget()
        return go(self._pages, f"/study/{name}/result")

    # ---------------------------------------------------------------------------------- files

    def csv(self, visit: Visit) -> Response:
        _, result = self._result(visit.path["name"])
        headings, rows = result.table()
        return download(csv_text([headings, *rows]), f"{visit.path['name']}.csv", "text/csv")

    def json(self, visit: Visit) -> Response:
        spec, result = self._result(visit.path["name"])
        figures = {"study": spec.name, "digest": spec.digest, **result.figures()}
        text = json.dumps(figures, indent=2) + "\n"
        return download(text, f"{visit.path['name']}.json", "application/json")

    def rows(self, visit: Visit) -> Response:
        name = visit.path["name"]
        _, result = self._result(name)
        own = self._own(name)
        headings, rows = own_columns(result, own)
        if not headings:
            raise TableError("Choose your table first: labels of this study are found from it")
        ids = int(own is not None and bool(own.ids))
        return download(csv_text([headings, *rows], own=ids), f"{name}-rows.csv", "text/csv")

    def report(self, visit: Visit) -> Response:
        spec, result = self._result(visit.path["name"])
        return download(
            report(spec, result, *_chosen(visit)), f"{spec.name}-report.html", "text/html"
        )


def _found_labels(owner: Owner, spec: Spec, result: Any, table: Path) -> list[int]:
    """Labels that an owner finds itself, where the result lets it."""
    if _joins(spec):  # it takes the columns of all sides
        return []
    if hasattr(result, "label"):
        return [int(label) for label in owner.labels_of(spec, result, table)]
    if hasattr(result, "predict"):
        return [int(label) for label in result.predict(table)]
    return []


def _joins(spec: Spec) -> bool:
    return getattr(spec.job, "join", None) is not None


def _wants_rows(spec: Spec, result: Any) -> bool:
    """Whether the owner's own rows beside the result tell more."""
    if _joins(spec):
        return bool(result.own_rows())
    clusters = hasattr(result, "cluster_centers_") or hasattr(result, "by_k")
    return clusters or getattr(result, "links_", None) is not None


def _values(strict: Path, spec: Spec, owner: str) -> Any:
    """The numbers of a strict file by column; of a word its number."""
    asked = wanted(spec, owner)
    words = [{word: i for i, word in enumerate(c.values)} for c in asked if isinstance(c, Column)]
    width, first = len(words), len(asked)
    with strict.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        extra = len(next(reader)) - first
        rows = [
            [
                float(numbers[cell]) if numbers else (float(cell) if cell else np.nan)
                for cell, numbers in zip(fields[extra : extra + width], words, strict=True)
            ]
            for fields in reader
        ]
    return np.array(rows, np.float64).reshape(len(rows), width)


def _cells(strict: Path, width: int) -> list[list[str]]:
    """The cells of a strict file as they are written, by column of the study."""
    with strict.open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    return [fields[len(fields) - width :] for fields in rows]


def _chosen(visit: Visit) -> tuple[int, tuple[int, int]]:
    """The number of clusters and the two columns that a page shows."""
    k, x, y = (_whole(visit.query.get(*each)) for each in (("k", "0"), ("x", "0"), ("y", "1")))
    return k, (x, y)


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 6 else 0
