"""An owner's table: chosen, matched to the study, sent, paused, withdrawn."""

from collections.abc import Sequence

import msgspec
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from client.desk import plots
from client.desk.agreement import privacy_of
from client.desk.drafts import Choices
from client.desk.incoming import receive_table
from client.desk.owner_desk import OwnerDesk, Study
from client.desk.pages import count, number
from client.desk.preview_view import preview_lines
from client.desk.screens import Visit, csv_text, download, go, guarded, route
from client.desk.sending import Upload
from client.desk.table_file import TableLook, wanted
from ppodc.errors import InputError, StateError, printable
from ppodc.spec import Spec

_MAX_NAME = 200


class TableScreens:
    """The screens of tables on their way to the clouds."""

    def __init__(self, desk: OwnerDesk) -> None:
        self._desk, self._pages = desk, desk.pages
        self._uploads: dict[str, Upload] = {}

    def routes(self, study: str) -> Sequence[BaseRoute]:
        page = self._pages
        return [
            route(page, f"{study}/table", self.table),
            route(page, f"{study}/table", self.chosen, "POST"),
            guarded(page, f"{study}/file", self.file, "PUT"),
            route(page, f"{study}/problems.csv", self.problems),
            route(page, f"{study}/forget", self.forget, "POST"),
            route(page, f"{study}/send", self.send),
            route(page, f"{study}/send", self.start, "POST"),
            route(page, f"{study}/sending", self.sending),
            route(page, f"{study}/pause", self.pause, "POST"),
            route(page, f"{study}/withdraw", self.withdraw, "POST"),
        ]

    def busy(self) -> bool:
        """Whether a table is on its way."""
        return any(upload.running for upload in self._uploads.values())

    def close(self) -> None:
        """Stop what is on its way; it can go on later."""
        for upload in self._uploads.values():
            if upload.running:
                upload.pause()

    def _sending(self, name: str) -> bool:
        return name in self._uploads and self._uploads[name].running

    def drop_late(self, study: Study) -> None:
        """Delete a table that was half sent when the rows were fixed: it is of no use any more."""
        if not study.open and not self._sending(study.listed.name):
            self._desk.draft(study.listed.name).forget()

    def _check_quiet(self, name: str) -> None:
        if self._sending(name):
            raise StateError("A table of this study is being sent. Pause it first.")

    # ---------------------------------------------------------------------------------- table

    def table(self, visit: Visit, said: str = "") -> Response:
        name = visit.path["name"]
        study, spec, draft = (
            self._desk.study(name),
            self._desk.accepted(name),
            self._desk.draft(name),
        )
        look = draft.look(spec) if draft.exists else None
        numeric = [] if look is None else list(look.histograms)
        picked = visit.query.get("column", "")
        if picked not in numeric:
            picked = numeric[0] if numeric else ""
        return self._pages.page(
            "owner_table.html",
            400 if said else 200,
            here="/",
            name=name,
            spec=spec,
            reached=max(1, study.at.reached),
            open=study.open,
            look=look,
            choices=draft.choices() if draft.exists else None,
            columns=wanted(spec, self._desk.config.name),
            spreads=_spreads(look),
            numeric=numeric,
            picked=picked,
            histogram=_histogram(spec, look, picked),
            bins=_bins(spec, look, picked),
            people=spec.job.kind == "local",
            earlier=sum(u.rows for u in self._desk.owner().uploads(name) if u.committed),
            said=said,
        )

    async def file(self, request: Request) -> Response:
        """Take a chosen table into the private folder."""
        name = request.path_params["name"]
        spec = await run_in_threadpool(self._desk.accepted, name)
        draft = self._desk.draft(name)
        self._check_quiet(name)
        await receive_table(request, draft.place())
        shown = printable(request.query_params.get("name", ""))[:_MAX_NAME]
        draft.choose(Choices(name=shown, digest=spec.digest))
        try:
            await run_in_threadpool(draft.look, spec)
        except InputError:
            draft.forget()
            raise
        return go(self._pages, f"/study/{name}/table", script=True)

    def chosen(self, visit: Visit) -> Response:
        """Keep what was chosen; go on to sending if all is well."""
        name = visit.path["name"]
        spec, draft = self._desk.accepted(name), self._desk.draft(name)
        if not draft.exists:
            return self.table(visit, "Choose a file first.")
        draft.choose(
            msgspec.structs.replace(
                draft.choices(),
                columns={
                    column.name: visit.field(f"column-{place}")
                    for place, column in enumerate(wanted(spec, self._desk.config.name))
                },
                people=visit.field("people") if spec.job.kind == "local" else "",
                leave_out=visit.field("faulty") == "leave",
                replace=visit.field("earlier") == "replace",
            )
        )
        if visit.field("do") != "go":
            return go(self._pages, f"/study/{name}/table")
        look = draft.look(spec)
        if look.missing:
            return self.table(visit, "Choose a column of your file for each column of the study.")
        if look.bad and not draft.choices().leave_out:
            return self.table(visit, "Decide first what becomes of the rows with a problem.")
        try:
            draft.ready(self._desk.owner(), spec)
        except InputError as error:
            return self.table(visit, str(error))
        return go(self._pages, f"/study/{name}/send")

    def problems(self, visit: Visit) -> Response:
        """The problems by line and column, without a value."""
        name = visit.path["name"]
        look = self._desk.draft(name).look(self._desk.accepted(name))
        rows = [["line", "column", "problem"]]
        rows += [[str(fault.line), fault.column, fault.words] for fault in look.faults]
        return download(csv_text(rows), "problems.csv", "text/csv")

    def forget(self, visit: Visit) -> Response:
        """Delete the chosen table from the private folder."""
        name = visit.path["name"]
        self._check_quiet(name)
        self._desk.draft(name).forget()
        return go(self._pages, f"/study/{name}/table")

    # ----------------------------------------------------------------------------------- send

    def send(self, visit: Visit) -> Response:
        name = visit.path["name"]
        study, draft = self._desk.study(name), self._desk.draft(name)
        self.drop_late(study)
        upload = self._uploads.get(name)
        ready, preview = None, None
        if draft.exists and study.open and (upload is None or not upload.running):
            spec = self._desk.accepted(name)
            ready = draft.ready(self._desk.owner(), spec)
            preview = preview_lines(spec, ready.path, ready.rows)
        return self._pages.page(
            "owner_send.html",
            here="/",
            name=name,
            reached=max(2 if draft.exists else 0, study.at.reached),
            open=study.open,
            ready=ready,
            preview=preview,
            interrupted=draft.exists and draft.choices().sending,
            replace=draft.exists and draft.choices().replace,
            upload=upload,
            alone=self._desk.alone,
            receipts=[
                (sent.upload_id, f"{sent.rows:,}", "fixed" if sent.sealed else "can be changed")
                for sent in self._desk.owner().uploads(name)
                if sent.committed
            ],
            rows=study.listed.rows,
            privacy=None if study.spec is None else privacy_of(study.spec),
        )

    def start(self, visit: Visit) -> Response:
        """Send, or go on with what an earlier attempt has left."""
        name = visit.path["name"]
        spec, draft = self._desk.accepted(name), self._desk.draft(name)
        upload = self._uploads.get(name)
        if upload is None or not upload.running:
            if not draft.exists:
                raise InputError("There is no table to send. Choose it again.")
            draft.ready(self._desk.owner(), spec)
            draft.choose(msgspec.structs.replace(draft.choices(), sending=True))
            self._uploads[name] = upload = Upload(self._desk.connect, name, draft)
            upload.start()
        return go(self._pages, f"/study/{name}/send")

    def sending(self, visit: Visit) -> Response:
        """The part of the page that follows an upload."""
        name = visit.path["name"]
        upload = self._uploads.get(name)
        if upload is None or not upload.running:
            return go(self._pages, f"/study/{name}/send", script=True)
        return self._pages.page("owner_sending.html", upload=upload, alone=self._desk.alone)

    def pause(self, visit: Visit) -> Response:
        name = visit.path["name"]
        if self._sending(name):
            self._uploads[name].pause()
        return go(self._pages, f"/study/{name}/send")

    def withdraw(self, visit: Visit) -> Response:
        name = visit.path["name"]
        self._check_quiet(name)
        self._desk.accepted(name)
        self._desk.owner().withdraw(name)
        self._desk.draft(name).forget()
        self._uploads.pop(name, None)
        return go(self._pages, f"/study/{name}/send")


def _spreads(look: TableLook | None) -> dict[str, Markup]:
    if look is None:
        return {}
    return {name: plots.spread(found) for name, found in look.histograms.items()}


def _bins(spec: Spec, look: TableLook | None, picked: str) -> list[list[str]]:
    """The histogram in numbers: (from, to, rows) of each bar."""
    if look is None or not picked:
        return []
    column = next(each for each in spec.schema.columns if each.name == picked)
    found = look.histograms[picked]
    wide = (column.high - column.low) / len(found.counts)
    lines = [
        [number(column.low + place * wide), number(column.low + (place + 1) * wide), count(rows)]
        for place, rows in enumerate(found.counts)
        if rows
    ]
    below = [["", f"below {number(column.low)}", count(found.below)]] if found.below else []
    above = [[f"above {number(column.high)}", "", count(found.above)]] if found.above else []
    return [*below, *lines, *above]


def _histogram(spec: Spec, look: TableLook | None, picked: str) -> Markup | None:
    if look is None or not picked:
        return None
    column = next(each for each in spec.schema.columns if each.name == picked)
    return plots.histogram(look.histograms[picked], column)
