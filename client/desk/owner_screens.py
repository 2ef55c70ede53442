"""An owner's screens: studies, what the owner agrees to, waiting; tables and results are beside."""

from collections.abc import Sequence
from pathlib import Path

from starlette.responses import Response
from starlette.routing import BaseRoute

from client.desk.agreement import (
    agreement,
    counted,
    course,
    kind_in_words,
    privacy_of,
    smallest,
    words_of,
)
from client.desk.budget_view import budget_of
from client.desk.drafts import sweep
from client.desk.invitation_screens import KeyScreens
from client.desk.ledger_screens import LedgerScreens
from client.desk.owner_desk import OwnerDesk
from client.desk.result_screens import ResultScreens
from client.desk.screens import Visit, go, route
from client.desk.table_file import wanted
from client.desk.table_screens import TableScreens
from client.ledger_heads import LedgerHeads
from ppodc.service.job_state import JobState

_ORDER = {"turn": 0, "stop": 1, "good": 2, "work": 3, "wait": 4}  # of badges on the first page


class OwnerScreens:
    """All screens of one owner."""

    def __init__(self, config_file: Path, base: str) -> None:
        self._desk = desk = OwnerDesk(config_file, base)
        self.pages = desk.pages
        self._tables = TableScreens(desk)
        self._results = ResultScreens(desk)
        self._ledgers = LedgerScreens(
            desk.pages, desk.clouds, desk.config, lambda: desk.owner().releases()
        )
        self._keys = KeyScreens(desk.pages, config_file, desk.config, desk.close, self.busy)
        sweep(desk.folder)

    def routes(self) -> Sequence[BaseRoute]:
        page, study = self.pages, "/study/{name}"
        return [
            route(page, "/", self.studies),
            route(page, study, self.study),
            route(page, f"{study}/agree", self.agree),
            route(page, f"{study}/agree", self.agreed, "POST"),
            route(page, f"{study}/wait", self.wait),
            route(page, f"{study}/progress", self.progress),
            *self._tables.routes(study),
            *self._results.routes(study),
            *self._ledgers.routes(),
            *self._keys.routes(),
        ]

    def busy(self) -> bool:
        """Whether a table is on its way."""
        return self._tables.busy()

    def close(self) -> None:
        """Pause uploads, give up the connections, delete tables that are not half sent."""
        self._tables.close()
        self._results.close()
        sweep(self._desk.folder)
        self._desk.close()

    # -------------------------------------------------------------------------------- studies

    def studies(self, _: Visit) -> Response:
        lines = []
        for study in self._desk.studies():
            self._tables.drop_late(study)
            draft, spec = self._desk.draft(study.listed.name), study.spec
            state = study.progress
            lines.append(
                {
                    "name": study.listed.name,
                    "kind": "" if spec is None else kind_in_words(spec),
                    "owners": 0 if spec is None or spec.owners is None else len(spec.owners.keys),
                    "rows": study.listed.rows,
                    "at": study.at,
                    "half": draft.exists and draft.choices().sending,
                    "ended": state.deleted or state.state == JobState.CANCELLED,
                }
            )
        lines.sort(key=lambda line: _ORDER.get(line["at"].badge, 5))  # type: ignore[attr-defined]
        return self.pages.page(
            "owner_studies.html",
            here="/",
            open=[line for line in lines if not line["ended"]],
            ended=[line for line in lines if line["ended"]],
            turns=sum(line["at"].badge == "turn" for line in lines),  # type: ignore[attr-defined]
            alone=self._desk.alone,
            budget=budget_of(self._desk.config),
            lost=LedgerHeads(self._desk.config).lost(),
        )

    def study(self, visit: Visit) -> Response:
        """The step that comes next."""
        name = visit.path["name"]
        return go(self.pages, f"/study/{name}/{self._desk.study(name).at.step}")

    # ---------------------------------------------------------------------------------- agree

    def agree(self, visit: Visit, said: str = "") -> Response:
        name, owner = visit.path["name"], self._desk.owner()
        spec = owner.spec(name)  # a difference between the clouds is a fault
        study, privacy = self._desk.study(name), privacy_of(spec)
        return self.pages.page(
            "owner_agree.html",
            400 if said else 200,
            here="/",
            name=name,
            spec=spec,
            reached=study.at.reached,
            accepted=owner.has_accepted(spec),
            open=study.open,
            words=agreement(spec, self._desk.config.name),
            meant=words_of(spec),
            columns=wanted(spec, self._desk.config.name),
            grid=" ".join(spec.digest[i : i + 8] for i in range(0, 56, 8)),
            tail=spec.digest[-8:],
            privacy=privacy,
            must_type=privacy is not None and not privacy.claim_holds,
            budget=budget_of(self._desk.config),
            min_size=smallest(spec),
            counted=counted(spec),
            alone=self._desk.alone,
            said=said,
        )

    def agreed(self, visit: Visit) -> Response:
        name, owner = visit.path["name"], self._desk.owner()
        spec = owner.spec(name)
        if visit.field("digest").lower().replace(" ", "") != spec.digest[-8:]:
            return self.agree(
                visit,
                "These are not the last eight characters of this study. Nothing was agreed. If the "
                "other owner reads out others, the clouds show you two different studies. Stop, "
                "and call the people who run it.",
            )
        if not visit.ticked("may"):
            return self.agree(visit, "Tick the box if you may agree for your organisation.")
        owner.accept(name, spec, _number(visit.field("epsilon")))
        return go(self.pages, f"/study/{name}/table")

    # ----------------------------------------------------------------------------------- wait

    def wait(self, visit: Visit) -> Response:
        name = visit.path["name"]
        study = self._desk.study(name)
        return self.pages.page(
            "owner_wait.html",
            here="/",
            name=name,
            reached=max(3, study.at.reached),
            at=study.at,
            progress=study.progress,
            course=course(study.progress),
        )

    def progress(self, visit: Visit) -> Response:
        """The part of the page that follows a job."""
        name = visit.path["name"]
        study = self._desk.study(name)
        if study.at.step == "result":
            return go(self.pages, f"/study/{name}/result", script=True)
        return self.pages.page(
            "owner_progress.html",
            at=study.at,
            progress=study.progress,
            course=course(study.progress),
        )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
