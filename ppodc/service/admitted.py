"""Callers that a cloud has admitted since its configuration was written.

Each is the answer to an invitation, kept in the folder `admitted` beside the configuration. A
running service looks there every few seconds, so that nobody has to restart it. An earlier key of
the same name stays admitted, since specs name keys: results of older datasets are fetched with it.
`replace` ends that, for a key that was lost or stolen.
"""

import logging
from pathlib import Path

from ppodc.errors import InputError
from ppodc.files import private_folder, write_private
from ppodc.service.config import CloudConfig, owners_of, peers
from ppodc.service.invitation import Answer, read_file
from ppodc.transport.call_server import Peer
from ppodc.transport.gateway import Gateway

LOOK_SECONDS = 2.0
_FOLDER = "admitted"

log = logging.getLogger(__name__)


def admit(config_file: Path, config: CloudConfig, answer: Answer, *, replace: bool = False) -> bool:
    """Let this key in; False if it was in before. InputError if the name or key is another's."""
    folder = private_folder(config_file.resolve().parent / _FOLDER)
    known = {**peers(config), **_answered(folder)}
    same = known.get(answer.public_key.encode())
    if same is not None:
        if same.name != answer.name or same.role != answer.role:
            raise InputError(f"this key is known here already, as {same.role} {same.name!r}.")
        return False
    taken = [peer for peer in known.values() if peer.name == answer.name]
    if taken and not replace:
        raise InputError(
            f"{answer.name!r} has another key here. If this is a new key of the same party, and "
            "they have told you so, add --replace."
        )
    for file in _files(folder):
        if replace and read_file(file, Answer).name == answer.name:
            file.unlink()
    digest = "".join(format(byte, "02x") for byte in answer.public_key.encode()[:8])
    write_private(folder / f"{answer.name}-{digest}.toml", answer.to_toml().encode())
    return True


def callers(config_file: Path, config: CloudConfig) -> dict[bytes, Peer]:
    """Owners and operators of the configuration, and those admitted since, by key."""
    folder = config_file.resolve().parent / _FOLDER
    return {**_answered(folder), **owners_of(config)}


class Doorkeeper:
    """Tells a gateway whenever the folder of admitted callers has changed."""

    def __init__(self, config_file: Path, config: CloudConfig, gateway: Gateway) -> None:
        self._file, self._config, self._gateway = config_file, config, gateway
        self._known = callers(config_file, config)

    def look(self) -> None:
        """Once; `ppodc.service.running.regularly` calls it."""
        now = callers(self._file, self._config)
        if now != self._known:
            self._gateway.let_in(now)
            log.info("%d callers are known now, %d before", len(now), len(self._known))
            self._known = now


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml")) if folder.is_dir() else []


def _answered(folder: Path) -> dict[bytes, Peer]:
    found: dict[bytes, Peer] = {}
    for file in _files(folder):
        try:
            answer = read_file(file, Answer)
        except InputError as error:  # a damaged file keeps one caller out, not all
            log.warning("%s", error)
            continue
        found[answer.public_key.encode()] = Peer(answer.role, answer.name, answer.public_key)
    return found
