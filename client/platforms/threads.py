"""Both clouds as two threads of this process: nothing is started, nothing is left behind.

The protocols are the real ones, message by message, with a pair that talks through memory; there
are no processes, gateways, stores or owners' keys. Whoever runs this process could see everything,
as on any platform that is one machine: for trying things out, small jobs and model selection.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ppodc.errors import ChannelError
from ppodc.kinds import cloud_side, owner_side
from ppodc.pairs.progress import Listener, ignore
from ppodc.pairs.shards import cut
from ppodc.records.owner_side import Ints
from ppodc.records.prepared_upload import PreparedUpload, prepare
from ppodc.records.result_shares import ResultShare, open_shares
from ppodc.records.upload_form import Cloud
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel, memory_pair

if TYPE_CHECKING:
    from ppodc.crypto.paillier import PublicKey, SecretKey

SMALL = 20_000  # rows: up to these the start of a worker takes longer than it saves
_NO_LIMIT = Fraction(10**9)
_PATIENCE = 3600.0  # the other thread may compute for long; one that fails closes the channel


class ThreadPlatform:
    """Both clouds as threads of this process, for any number of jobs, also at the same time.

    C2's Paillier key is made once, for the first job of the paillier suite.

    Parameters
    ----------
    key_bits : int, default=2048
        Size of C2's Paillier key.
    insecure_key_bits : int, default=0
        A smaller key for tests, which protects nothing; 0: none.

    Examples
    --------
    >>> from ppodc import SecureTotals, ThreadPlatform
    >>> totals = SecureTotals(bounds=(0, 10), least=1, platform=ThreadPlatform())
    >>> totals.fit([[1], [2]]).sum_.tolist()
    [3.0]
    """

    def __init__(self, *, key_bits: int = 2048, insecure_key_bits: int = 0) -> None:
        self._bits, self._insecure_bits = key_bits, insecure_key_bits
        self._secret: SecretKey | None = None
        self._lock = threading.Lock()

    def __deepcopy__(self, _memo: object) -> "ThreadPlatform":
        return self  # clones of an estimator share it

    def __reduce__(self) -> tuple[Callable[..., "ThreadPlatform"], tuple[int, int]]:
        return _made, (self._bits, self._insecure_bits)  # the key stays here

    def run(
        self,
        spec: Spec,
        tables: Sequence[Ints],
        suite: str | None = None,
        progress: Listener = ignore,
        on_seal: Callable[[Sealed], None] = lambda _: None,
    ) -> list[Any]:
        """The result of the spec's job as the owner of each table (encoded records) opens it.

        `on_seal` gets what both clouds know of the uploads.
        """
        chosen = spec.kind.suite(suite)
        uploads = _prepared(spec, tables)
        owners = (f"owner{number}" for number in range(1, len(tables) + 1))
        sealed = Sealed.of(
            spec,
            [(name, len(u.values), u.outline) for name, u in zip(owners, uploads, strict=True)],
        )
        key = self._key() if chosen == "paillier" else None
        public = None if key is None else key.public
        cloud_side(spec).check(sealed.m, chosen, 0 if public is None else public.bits)
        on_seal(sealed)
        first, second = memory_pair(timeout=_PATIENCE)
        walked = partial(_walked, spec, chosen, sealed, uploads)
        shared = _both(
            partial(walked, 1, first, public, progress), partial(walked, 2, second, key, ignore)
        )
        places = {owner: sealed.places_of(owner) for owner in sealed.owners}
        opened = [
            open_shares(*(share.for_owner(*place) for share in shared)) for place in places.items()
        ]
        sides = map(owner_side(spec).of, places)
        return [side.open_result(each) for side, each in zip(sides, opened, strict=True)]

    def _key(self) -> "SecretKey":
        from ppodc.crypto.paillier import generate, generate_insecure

        with self._lock:
            if self._secret is None:
                weak = self._insecure_bits
                self._secret = generate_insecure(weak) if weak else generate(self._bits)
            return self._secret


def _made(key_bits: int, insecure_key_bits: int) -> ThreadPlatform:
    return ThreadPlatform(key_bits=key_bits, insecure_key_bits=insecure_key_bits)


def _walked(
    spec: Spec,
    suite: str,
    sealed: Sealed,
    uploads: Sequence[PreparedUpload],
    role: Cloud,
    channel: Channel,
    key: "PublicKey | SecretKey | None",
    progress: Listener,
) -> ResultShare:
    """One cloud's share of the result; its channel is closed at the end, whatever happens."""
    from ppodc.pairs.cloud_side import Material
    from ppodc.pairs.walk import Walk, Walker, opened_half

    share = np.concatenate([upload.share(role) for upload in uploads])
    with closing(channel), opened_half(spec, suite, role, channel, sealed.m, Material(key)) as half:
        return Walker(Walk(spec, sealed), [half], partial(cut, share), progress).run()


def _both(*clouds: Callable[[], ResultShare]) -> list[ResultShare]:
    """Both clouds at the same time; if one fails, the other's wait ends and the cause is raised."""
    with ThreadPoolExecutor(len(clouds)) as threads:
        running = [threads.submit(cloud) for cloud in clouds]
    errors = [error for each in running if (error := each.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, ChannelError)):
        raise error  # a lost channel is only what the other's failure looks like from here
    return [each.result() for each in running]


def _prepared(spec: Spec, tables: Sequence[Ints]) -> list[PreparedUpload]:
    """The uploads that owners of these tables would send.

    Nothing leaves this process, so the charges are to folders of owners who never were.
    """
    side, form = owner_side(spec), spec.form
    uploads, extents = list[PreparedUpload](), None
    with TemporaryDirectory(prefix="ppodc-") as folder:
        for number, table in enumerate(tables):
            budget = Path(folder, str(number))
            uploads.append(prepare(side, table, budget, _NO_LIMIT, extents=extents))
            outline = uploads[0].outline
            extents = form.extents(outline) if form.follows and outline is not None else None
    return uploads
