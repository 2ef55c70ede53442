"""An operator's screens: studies at both clouds side by side, a new study, uploads, ledgers."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.routing import BaseRoute

from client.both_clouds import Clouds
from client.desk.agreement import agreement, kind_in_words
from client.desk.invitation_screens import InviteScreens, KeyScreens
from client.desk.ledger_screens import LedgerScreens
from client.desk.pages import Pages
from client.desk.screens import Visit, download, go, route
from client.desk.study_form import FORMS, Sketch, read_sketch, sample_sketch
from client.operator import Operator
from ppodc.errors import ChannelError, OptionError, PpodcError, printable
from ppodc.service.config import OwnerConfig, load
from ppodc.spec import Spec

LINKS = (
    ("/", "Studies"),
    ("/new", "New study"),
    ("/invite", "Invite"),
    ("/ledger", "Who learnt what"),
    ("/key", "My key"),
)
_PATIENCE = 10.0


class OperatorScreens:
    """All screens of an operator. Nothing here shows a half, a result or who fetched one."""

    def __init__(self, config_file: Path, base: str) -> None:
        self._config = load(config_file, OwnerConfig)
        name = self._config.name
        self.pages = Pages(base, name if name == "operator" else f"{name} (operator)", LINKS)
        self._connected: tuple[Operator, Clouds] | None = None
        self._changing = threading.Lock()
        self._ledgers = LedgerScreens(self.pages, lambda: self._both()[1], self._config)
        self._keys = KeyScreens(self.pages, config_file, self._config, self.close)
        self._invitations = InviteScreens(self.pages, self._config)

    def routes(self) -> Sequence[BaseRoute]:
        page, study = self.pages, "/study/{name}"
        return [
            route(page, "/", self.studies),
            route(page, "/new", self.new),
            route(page, "/new", self.make, "POST"),
            route(page, "/new/look", self.look, "POST"),
            route(page, study, self.study),
            route(page, f"{study}/spec.toml", self.text),
            route(page, f"{study}/leave-out", self.leave_out, "POST"),
            route(page, f"{study}/delete", self.delete, "POST"),
            *self._ledgers.routes(),
            *self._keys.routes(),
            *self._invitations.routes(),
        ]

    def busy(self) -> bool:
        return False

    def close(self) -> None:
        with self._changing:
            if self._connected is not None:
                self._connected[0].close()
                self._connected = None

    def _both(self) -> tuple[Operator, Clouds]:
        with self._changing:
            if self._connected is None:
                timeout = min(self._config.timeout, _PATIENCE)
                clouds = Clouds.connect(msgspec.structs.replace(self._config, timeout=timeout))
                self._connected = Operator(clouds), clouds
            return self._connected

    def _operator(self) -> Operator:
        return self._both()[0]

    # -------------------------------------------------------------------------------- studies

    def studies(self, _: Visit) -> Response:
        """All studies of either cloud, with what each says of them."""
        clouds, found, silent = self._both()[1], dict[str, dict[int, Any]](), dict[int, str]()
        for number in clouds.numbers:
            try:
                for listed in clouds.listed(number):
                    found.setdefault(listed.name, {})[number] = listed
            except ChannelError as error:
                silent[number] = str(error)
        lines = [
            {"name": name, "at": at, "same": len({each.digest for each in at.values()}) == 1
             and (len(at) == len(clouds.numbers) or bool(silent))}
            for name, at in sorted(found.items())
        ]  # fmt: skip
        return self.pages.page(
            "operator_studies.html",
            here="/",
            lines=lines,
            clouds=clouds.numbers,
            silent=silent,
        )

    def study(self, visit: Visit, said: str = "") -> Response:
        name = visit.path["name"]
        operator, clouds = self._both()
        spec = clouds.spec(name)
        uploads = [
            {
                "id": upload.upload_id,
                "owner": upload.owner,
                "rows": upload.rows,
                "state": upload.removed or ("counts" if upload.committed else "unfinished"),
                "open": not upload.removed and not upload.sealed,
            }
            for upload in operator.uploads(name)
        ]
        return self.pages.page(
            "operator_study.html",
            400 if said else 200,
            here="/",
            name=name,
            spec=spec,
            kind=kind_in_words(spec),
            words=agreement(spec),
            uploads=uploads,
            said=said,
        )

    def text(self, visit: Visit) -> Response:
        spec = self._both()[1].spec(visit.path["name"])
        return download(spec.to_toml(), f"{spec.name}.toml", "application/toml")

    def leave_out(self, visit: Visit) -> Response:
        name = visit.path["name"]
        self._operator().leave_out(name, visit.field("upload"))
        return go(self.pages, f"/study/{name}")

    def delete(self, visit: Visit) -> Response:
        name = visit.path["name"]
        if visit.field("name") != name:
            return self.study(visit, "Type the whole name of the study to delete it.")
        self._operator().delete(name)
        return go(self.pages, "/")

    # ------------------------------------------------------------------------------ new study

    def new(self, visit: Visit) -> Response:
        kind = visit.query.get("kind", "kmeans")
        if kind not in FORMS:
            raise OptionError(f"There is no kind of study {printable(kind)!r}.")
        return self._form(sample_sketch(kind, self._known_owners()))

    def _known_owners(self) -> dict[str, str]:
        """Names and keys of owners, from the specs of studies that both clouds have."""
        operator, clouds = self._both()
        known: dict[str, str] = {}
        for listed in operator.datasets():
            if listed.agreed:
                owners = clouds.spec(listed.name).owners
                known |= {} if owners is None else dict(owners.keys)
        return known

    def _form(self, sketch: Sketch, said: str = "") -> Response:
        return self.pages.page(
            "operator_new.html",
            400 if said else 200,
            here="/new",
            sketch=sketch,
            kinds=FORMS,
            said=said,
            **self._shown(sketch),
        )

    def look(self, visit: Visit) -> Response:
        """Preview the study as owners would read it, while the operator types."""
        return self.pages.page("operator_look.html", **self._shown(read_sketch(visit.form)))

    def _shown(self, sketch: Sketch) -> dict[str, Any]:
        try:
            spec = sketch.spec()
        except PpodcError as error:
            return {"spec": None, "fault": str(error), "text": sketch.text, "words": []}
        return {"spec": spec, "fault": "", "text": spec.to_toml(), "words": spec.describe()}

    def make(self, visit: Visit) -> Response:
        sketch = read_sketch(visit.form)
        if visit.field("do") in ("add", "add-owner", "fewer"):
            return self._form(sketch.changed(visit.field("do")))
        try:
            spec = sketch.spec()
            spec.require_owners()
        except PpodcError as error:
            return self._form(sketch, str(error))
        if visit.field("do") == "save":
            return download(spec.to_toml(), f"{spec.name}.toml", "application/toml")
        _check_claim(spec)
        self._operator().create(spec)
        return go(self.pages, f"/study/{spec.name}")


def _check_claim(spec: Spec) -> None:
    """A claim that does not hold is typed out in the terminal, not clicked through."""
    privacy = spec.form.privacy()
    if privacy is not None:
        privacy.check_accepted(None)
