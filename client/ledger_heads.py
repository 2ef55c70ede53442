"""Heads of the clouds' ledgers, which a client notes by itself and compares at its next visit.

A chain of hashes shows a changed entry, but not that its newest entries were cut off. Whoever has
noted the head sees that too. The file is beside the owner's unfinished uploads; it holds numbers
and hashes only. A head that a cloud does not have any more is kept in it as evidence.
"""

from datetime import UTC, datetime

import msgspec

from client.both_clouds import Clouds
from ppodc.errors import InputError
from ppodc.files import private_folder, write_private
from ppodc.service.config import OwnerConfig
from ppodc.service.ledger_entries import START, Entry, verify

MOST_PAGES = 64  # read at one visit; the rest of a long ledger at the next


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of one cloud's ledger, and all before it, as they were."""

    number: int
    hash: str


class LostHead(Head, frozen=True, forbid_unknown_fields=True):
    """A head that the ledger does not have any more; `noticed`: when."""

    cloud: int
    noticed: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    heads: dict[str, Head] = {}  # by the cloud's public key
    lost: tuple[LostHead, ...] = ()


class LedgerHeads:
    """The heads that one party has noted."""

    def __init__(self, config: OwnerConfig) -> None:
        self._path = config.uploads / "ledger" / "heads.json"
        remotes = {1: config.cloud1, 2: config.cloud2}
        self._keys = {n: remote.public_key for n, remote in remotes.items() if remote is not None}

    def noted(self, cloud: int) -> int:
        """The number of the entry that was noted last; 0: none yet."""
        head = self._read().heads.get(self._keys[cloud])
        return 0 if head is None else head.number

    def lost(self) -> tuple[LostHead, ...]:
        """Heads that a ledger has lost so far."""
        return self._read().lost

    def check(self, clouds: Clouds) -> list[str]:
        """Compare every ledger with the noted head and note the present one; what was lost."""
        return [told for cloud in clouds.numbers if (told := self._check(clouds, cloud))]

    def _check(self, clouds: Clouds, cloud: int) -> str:
        file, key = self._read(), self._keys[cloud]
        noted = file.heads.get(key, Head(0, START))
        entries = clouds.ledger(cloud, after=max(0, noted.number - 1), pages=MOST_PAGES)
        kept = not noted.number or (bool(entries) and entries[0].hash == noted.hash)
        if kept:
            head, fault = _continued(noted, entries[1:] if noted.number else entries)
            self._write(msgspec.structs.replace(file, heads={**file.heads, key: head}))
            return f"cloud {cloud}: {fault}" if fault else ""
        lost = LostHead(noted.number, noted.hash, cloud, datetime.now(UTC).isoformat())
        head, _ = _continued(Head(0, START), clouds.ledger(cloud, pages=MOST_PAGES))
        self._write(_File({**file.heads, key: head}, (*file.lost, lost)))
        return (
            f"cloud {cloud} does not have entry {noted.number} of its ledger any more as this "
            f"client noted it ({noted.hash[:16]}). It was restored from an older copy, or its "
            f"ledger was cut off or written anew. Ask its operator. {self._path} keeps the noted "
            "entry."
        )

    def _read(self) -> _File:
        if not self._path.exists():
            return _File()
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_File)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise InputError(
                f"{self._path} is damaged. Without it nobody can tell whether a ledger was cut off "
                "since. Restore it from a copy, or delete it."
            ) from None

    def _write(self, file: _File) -> None:
        private_folder(self._path.parent)
        write_private(self._path, msgspec.json.encode(file))


def _continued(head: Head, entries: list[Entry]) -> tuple[Head, str]:
    """The head after these entries, as far as they hold, and what is wrong with the next."""
    found = verify(iter(entries), (head.number, head.hash))
    fault = "" if found.broken is None else f"entry {found.broken} of the ledger: {found.reason}."
    return Head(found.entries, found.head), fault
