"""Keys and invitations: the own public key, a file that invites others, and the first start."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from client.both_clouds import not_admitted
from client.desk.incoming import read_small
from client.desk.pages import Pages
from client.desk.screens import Visit, download, go, guarded, route
from ppodc.errors import InputError, StateError
from ppodc.files import private_folder, write_private
from ppodc.service import new_key
from ppodc.service.config import OwnerConfig
from ppodc.service.invitation import Answer, Invitation, join, read, read_file
from ppodc.service.six_words import six_words
from ppodc.transport.curve_keys import CurveKeys

_PATIENCE = 10.0  # seconds that a page waits for a cloud


class KeyScreens:
    """The key of whoever has this configuration, and a new one in its place."""

    def __init__(
        self,
        pages: Pages,
        config_file: Path,
        config: OwnerConfig,
        changed: Callable[[], None],
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`changed` is called when a new key is in use; not while `busy`."""
        self._pages, self._config, self._folder = pages, config, config_file.resolve().parent
        self._changed, self._busy, self._changing = changed, busy, threading.Lock()

    def routes(self) -> Sequence[BaseRoute]:
        return [
            route(self._pages, "/key", self.key),
            route(self._pages, "/key/public", self.public),
            route(self._pages, "/key/answer", self.answer),
            route(self._pages, "/key/new", self.make, "POST"),
            route(self._pages, "/key/take", self.take, "POST"),
        ]

    def _public(self) -> str:
        return CurveKeys.load(self._config.key).public.decode("ascii")

    def _next(self) -> Answer | None:
        """The answer with the new key, if one was made."""
        if not new_key.unfinished(self._config.key):
            return None
        return new_key.begin(self._config, self._folder)[0]

    def key(self, _: Visit, waiting: Sequence[str] = ()) -> Response:
        config, public = self._config, self._public()
        clouds = [config.cloud1.public_key]
        clouds += [] if config.cloud2 is None else [config.cloud2.public_key]
        return self._pages.page(
            "key.html",
            400 if waiting else 200,
            here="/key",
            config=config,
            public=public,
            own_words=six_words(public),
            words=six_words(*clouds),
            next=self._next(),
            waiting=waiting,
        )

    def public(self, _: Visit) -> Response:
        return download(self._public() + "\n", f"{self._config.name}.public", "text/plain")

    def answer(self, _: Visit) -> Response:
        """The file that a cloud admits: with the new key, if one was made."""
        config = self._config
        answer = self._next() or Answer(
            role=config.role, name=config.name, public_key=self._public()
        )
        return download(answer.to_toml(), f"{config.name}.answer", "application/toml")

    def make(self, _: Visit) -> Response:
        """A new key beside the old one, which stays in use."""
        with self._changing:
            new_key.begin(self._config, self._folder)
        return go(self._pages, "/key")

    def take(self, visit: Visit) -> Response:
        """Take up the new key, once every cloud lets it in."""
        if self._busy():
            raise StateError("A table is being sent with the old key. Pause it first.")
        with self._changing:
            key = self._config.key
            if not new_key.unfinished(key):
                return go(self._pages, "/key")
            if not new_key.half_moved(key):
                config = msgspec.structs.replace(
                    self._config, timeout=min(self._config.timeout, _PATIENCE)
                )
                waiting = not_admitted(config, new_key.next_stem(key))
                if waiting:
                    return self.key(visit, waiting)
            new_key.finish(key)
            self._changed()
        return go(self._pages, "/key")


class InviteScreens:
    """An invitation to the clouds that this configuration names."""

    def __init__(self, pages: Pages, config: OwnerConfig) -> None:
        self._pages, self._config = pages, config

    def routes(self) -> Sequence[BaseRoute]:
        return [
            route(self._pages, "/invite", self.page),
            route(self._pages, "/invite/file", self.file),
        ]

    def page(self, _: Visit) -> Response:
        return self._pages.page("invite.html", here="/invite", words=self._invitation("").words())

    def file(self, visit: Visit) -> Response:
        invitation = self._invitation(visit.query.get("study", ""))
        return download(invitation.to_toml(), "invitation.ppodc", "application/toml")

    def _invitation(self, study: str) -> Invitation:
        config = self._config
        made = Invitation(study=study, cloud1=config.cloud1, cloud2=config.cloud2)
        return read(made.to_toml(), Invitation)  # refuses what cannot be a study's name


class FirstStart:
    """The desk of somebody without a configuration: an invitation becomes a key."""

    def __init__(self, folder: Path, base: str) -> None:
        self.pages = Pages(base, "First start", ())
        self._folder, self._kept = folder, folder / "invitation.ppodc"
        self._joining = threading.Lock()

    def routes(self) -> Sequence[BaseRoute]:
        return [
            route(self.pages, "/", self.page),
            guarded(self.pages, "/invitation", self.take, "PUT"),
            route(self.pages, "/join", self.join, "POST"),
            route(self.pages, "/answer", self.answer),
        ]

    def busy(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""

    def page(self, _: Visit, said: str = "") -> Response:
        invitation = read_file(self._kept, Invitation) if self._kept.exists() else None
        config = self._folder / "owner.toml"
        return self.pages.page(
            "first_start.html",
            400 if said else 200,
            invitation=invitation,
            words=[] if invitation is None else invitation.words(),
            joined=config.exists(),
            folder=self._folder,
            said=said,
        )

    async def take(self, request: Request) -> Response:
        """Open an invitation file."""
        data = await read_small(request)
        try:
            invitation = await run_in_threadpool(read, data.decode("utf-8"), Invitation)
        except UnicodeDecodeError:
            raise InputError("This file is no invitation.") from None
        private_folder(self._folder)
        write_private(self._kept, invitation.to_toml().encode())
        return go(self.pages, "/", script=True)

    def join(self, visit: Visit) -> Response:
        """Make the key; the six words were compared."""
        if not self._kept.exists():
            return self.page(visit, "Open your invitation first.")
        if not visit.ticked("same") or not visit.field("with"):
            return self.page(visit, "Compare the six words first, and say with whom.")
        with self._joining:
            join(read_file(self._kept, Invitation), self._folder, visit.field("name"))
        return go(self.pages, "/")

    def answer(self, _: Visit) -> Response:
        found = sorted(self._folder.glob("*.answer"))
        if not found:
            raise InputError("There is no key yet.")
        answer = read_file(found[0], Answer)
        return download(answer.to_toml(), f"{answer.name}.answer", "application/toml")
