"""Callers that a cloud has admitted since its configuration was written.

Each is the answer to an invitation, kept in the folder `admitted` beside the configuration. A
running service looks there every few seconds, so that nobody has to restart it.

A new key may *replace* the earlier ones of the same name. The earlier keys are refused from then
on, also those of the configuration, and the new key speaks for the party in every dataset whose
spec names one of them. The specs stay as they are. The ledger notes it, for every such dataset.

A file that cannot be read may have replaced a key. So no key of the party that its name tells is
let in, not even one of the configuration, until somebody mends the file.

Who learns what: everybody who reads the ledger of a dataset learns that an owner's key was replaced
there, and by which. One cloud alone gains nothing by a false replacement: the halves that it would
give away are its own.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ppodc.errors import ConfigError, InputError
from ppodc.files import private_folder, write_private
from ppodc.service.config import CloudConfig, owners_of, peers
from ppodc.service.invitation import MOST_FORMER, Answer, read_file
from ppodc.transport.call_server import Peer
from ppodc.transport.gateway import Gateway

if TYPE_CHECKING:
    from ppodc.service.store import Store

LOOK_SECONDS = 2.0
REPLACED = "key replaced"
_FOLDER = "admitted"

log = logging.getLogger(__name__)


def admit(config_file: Path, config: CloudConfig, answer: Answer, *, replace: bool = False) -> bool:
    """Let this key in; False if it was in before. InputError if the name or key is another's."""
    folder = private_folder(config_file.resolve().parent / _FOLDER)
    answered, damaged = _answered(folder)
    if answer.name in damaged:
        raise ConfigError(
            f"{damaged[answer.name]} It says which keys of {answer.name!r} were replaced, so no "
            "key of this name is let in. Put the file back from a copy, or remove it if no key of "
            f"{answer.name!r} was ever replaced here."
        )
    known = _without_replaced({**peers(config), **answered})
    same = known.get(answer.public_key.encode())
    if same is not None:
        if same.name != answer.name or same.role != answer.role:
            raise ConfigError(f"this key is known here already, as {same.role} {same.name!r}.")
        return False
    taken = [peer for peer in known.values() if peer.name == answer.name]
    former = _keys_of(taken)
    _check_new(answer, taken, former, replace)
    digest = "".join(format(byte, "02x") for byte in answer.public_key.encode()[:8])
    file = folder / f"{answer.name}-{digest}.toml"
    write_private(file, msgspec.structs.replace(answer, replaces=former).to_toml().encode())
    for earlier in _files(folder):  # after the new one is there: a kill in between loses nobody
        if earlier != file and _party(earlier) == answer.name:
            earlier.unlink()
    return True


def keys_replaced_by(config_file: Path, config: CloudConfig, answer: Answer) -> tuple[str, ...]:
    """The keys that `admit` with `replace` would shut out for good; the newest first."""
    answered, _ = _answered(config_file.resolve().parent / _FOLDER)
    known = _without_replaced({**peers(config), **answered})
    taken = [peer for peer in known.values() if peer.name == answer.name]
    return tuple(key for key in _keys_of(taken) if key != answer.public_key)


def _keys_of(taken: list[Peer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for peer in taken for key in (peer.key, *peer.former)))


def _check_new(answer: Answer, taken: list[Peer], former: tuple[str, ...], replace: bool) -> None:
    """Refuse a key of a name that is another's, or that replaces what this cloud does not know."""
    if answer.public_key in former:
        raise ConfigError(
            f"this key of {answer.name!r} was replaced here by a newer one. Whoever lost that one "
            "too makes a new key."
        )
    if any(peer.role != answer.role for peer in taken):
        raise ConfigError(f"{answer.name!r} is a party of another role here; choose another name.")
    if taken and not replace:
        raise ConfigError(
            f"{answer.name!r} has another key here. If this is a new key of the same party, and "
            "they have told you so, add --replace: its datasets pass to the new key, and the old "
            "one is refused."
        )
    if len(former) > MOST_FORMER:
        raise ConfigError(
            f"{answer.name!r} has replaced its key {MOST_FORMER} times, and no more are kept. Let "
            "the party join under another name."
        )
    if not set(answer.replaces) <= set(former):
        raise ConfigError(
            f"this answer replaces a key that {answer.name!r} does not have here. Ask the party "
            "for its name and for the key that it had."
        )


def callers(config_file: Path, config: CloudConfig) -> dict[bytes, Peer]:
    """Owners, operators and auditors of the configuration, and those admitted since, by key."""
    answered, damaged = _answered(config_file.resolve().parent / _FOLDER)
    known = _without_replaced({**answered, **owners_of(config)})
    return {key: peer for key, peer in known.items() if peer.name not in damaged}


def note_replaced(store: "Store", known: Mapping[bytes, Peer]) -> None:
    """Write every replaced key into the ledger, once for each dataset whose spec names it."""
    entries = [entry for entry in store.ledger.entries() if entry.event == REPLACED]
    noted = {(entry.dataset, *_keys_in(entry.detail)) for entry in entries}
    changes = [(peer, old) for peer in known.values() for old in peer.former]
    specs = [store.datasets.spec(name) for name in store.datasets.names()] if changes else []
    for peer, old in changes:
        named = {spec.name: spec.require_owners().name_of(old) for spec in specs}
        parties = {"": peer.name, **{name: party for name, party in named.items() if party}}
        for dataset, party in parties.items():
            if (dataset, old, peer.key) not in noted:
                detail = {"party": party, "old_key": old, "new_key": peer.key}
                learnt = "everybody who reads this: whose key was replaced, and by which"
                store.ledger.append(REPLACED, dataset, detail, learnt)


class Doorkeeper:
    """Tells a gateway and the ledger whenever the folder of admitted callers has changed."""

    def __init__(
        self, config_file: Path, config: CloudConfig, gateway: Gateway, store: "Store"
    ) -> None:
        self._file, self._config, self._gateway = config_file, config, gateway
        self._store = store
        self._known = callers(config_file, config)
        note_replaced(store, self._known)

    def look(self) -> None:
        """Once; `ppodc.service.running.regularly` calls it."""
        now = callers(self._file, self._config)
        if now != self._known:
            # whoever is out goes first, even if nothing can be written
            self._gateway.let_in({key: peer for key, peer in self._known.items() if key in now})
            note_replaced(self._store, now)
            self._gateway.let_in(now)
            log.info("%d callers are known now, %d before", len(now), len(self._known))
            self._known = now


def _keys_in(detail: str) -> tuple[str, str]:
    told = json.loads(detail)
    return told["old_key"], told["new_key"]


def _without_replaced(known: Mapping[bytes, Peer]) -> dict[bytes, Peer]:
    replaced = {key for peer in known.values() for key in peer.former}
    return {key: peer for key, peer in known.items() if peer.key not in replaced}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml")) if folder.is_dir() else []


def _answered(folder: Path) -> tuple[dict[bytes, Peer], dict[str, str]]:
    """Admitted callers by key, and for each unreadable file its owner and the reason."""
    found: dict[bytes, Peer] = {}
    damaged: dict[str, str] = {}
    for file in _files(folder):
        try:
            answer = read_file(file, Answer)
        except InputError as error:
            party = _party(file)
            log.warning("%s No key of %r is let in until it is mended.", error, party)
            damaged[party] = str(error)
            continue
        peer = Peer(answer.role, answer.name, answer.public_key, answer.replaces)
        found[answer.public_key.encode()] = peer
    return found, damaged


def _party(file: Path) -> str:
    """The party whose key a file of the folder holds, by the name that `admit` gave it."""
    return file.stem.rpartition("-")[0] or file.stem
