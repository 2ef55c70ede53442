"""Both clouds as two threads of this process: nothing is started, nothing is left behind.

The protocols are the real ones, message by message, with a pair that talks through memory; there
are no processes, gateways, stores or owners' keys. Whoever runs this process could see everything,
as on any platform that is one machine: for trying things out, small jobs and model selection.
"""

import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import PublicKey, SecretKey, generate, generate_insecure
from ppodc.errors import ChannelError
from ppodc.pairs.plan import (
    LEAD,
    DrawsNoise,
    Material,
    Place,
    PlacesRows,
    Plan,
    Step,
    StepResults,
    due_step,
    pair_kind,
    shards_at,
    suite_of,
)
from ppodc.pairs.progress import Event, Listener, ignore
from ppodc.pairs.shards import Shard, split
from ppodc.records.output_half import OpenedResult, ResultHalf, open_output
from ppodc.records.sharing import SEED_BYTES
from ppodc.records.upload_form import Arranges, Cloud, SeedPart
from ppodc.service.upload import Outline, Sealed, Upload
from ppodc.spec import Spec
from ppodc.transport.channel import Channel, memory_pair

Integers = NDArray[np.int64]
_NO_LIMIT = Fraction(10**9)
_PATIENCE = 3600.0  # the other thread may compute for long; one that fails closes the channel


class ThreadPlatform:
    """See the module. Serves any number of jobs, also at the same time; C2's key is made once."""

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
        tables: Sequence[Integers],
        suite: str | None = None,
        progress: Listener = ignore,
        on_seal: Callable[[Sealed], None] = lambda _: None,
    ) -> list[Any]:
        """The result of the spec's job as the owner of each table (encoded records) opens it.

        `on_seal` is told what both clouds know of the uploads.
        """
        kind, key = pair_kind(spec), self._key()
        tables, outlines = _arranged(spec, tables)
        chosen, m = suite_of(kind, suite), sum(map(len, tables))
        kind.check(spec, m, chosen, key.public.bits)
        shares, ends = _shares(spec, tables), memory_pair(timeout=_PATIENCE)
        sealed = _sealed(spec, tables, outlines)
        on_seal(sealed)
        halves = _both(
            _Side(1, spec, chosen, sealed, shares[0], ends[0], key.public, progress),
            _Side(2, spec, chosen, sealed, shares[1], ends[1], key, ignore),
        )
        return [_opened(spec, halves, tables, number) for number in range(len(tables))]

    def _key(self) -> SecretKey:
        with self._lock:
            if self._secret is None:
                weak = self._insecure_bits
                self._secret = generate_insecure(weak) if weak else generate(self._bits)
            return self._secret


def _made(key_bits: int, insecure_key_bits: int) -> ThreadPlatform:
    return ThreadPlatform(key_bits=key_bits, insecure_key_bits=insecure_key_bits)


class _Side:
    """One cloud: its plan, its half of the only pair, and its share of the records."""

    def __init__(
        self,
        role: Cloud,
        spec: Spec,
        suite: str,
        sealed: Sealed,
        share: NDArray[Any],
        channel: Channel,
        key: PublicKey | SecretKey,
        progress: Listener,
    ) -> None:
        self._kind, self._spec, self._share, self.channel = pair_kind(spec), spec, share, channel
        self._opening = (suite, role, channel, spec, len(share), Material(key))
        kind = self._kind
        self._shards: Sequence[Shard] = split(len(share), 1, 1)
        if isinstance(kind, PlacesRows):
            self._shards = kind.shards(spec, sealed, 1, self._shards)
        self._plan: Plan = kind.plan(spec, sealed, self._shards, 1, lambda _: None)
        if isinstance(self._plan, DrawsNoise):
            self._plan.noise_key = secrets.token_bytes(32)  # the job lives as long as this object
        self._progress, self._rows_done = progress, 0

    def run(self) -> ResultHalf:
        """Walk the plan to its end."""
        half = self._kind.open_half(*self._opening)
        with closing(half) if hasattr(half, "close") else nullcontext():  # type: ignore[type-var]
            number, done, held = 0, dict[str, int](), set[Shard]()
            while (line := due_step(self._plan)) is not None:
                number += 1
                step = Step(number, line.name, line.iteration(self._plan))
                own = shards_at(self._plan, self._shards, LEAD)
                for shard in own:
                    if shard not in held:
                        half.ingest(shard.name, self._share[shard.first : shard.first + shard.rows])
                held |= set(own)
                tasks = line.tasks(self._plan, Place(LEAD, own, done))
                tell = self._teller(step)
                results = [self._kind.perform(half, task, tell) for task in tasks]
                line.keep(self._plan, StepResults(step, {LEAD: tasks}, {LEAD: results}))
                done |= {task.name: step.iteration for task in tasks}
            return self._plan.result()

    def _teller(self, step: Step) -> Callable[[int], None]:
        """Counts the records of a step, for whoever watches."""
        done = 0

        def tell(rows: int) -> None:
            nonlocal done
            done += rows
            most, m = self._plan.max_iter, sum(shard.rows for shard in self._shards)
            self._progress(Event(self._spec.name, step.name, step.iteration, most, done, m))

        tell(0)
        return tell


def _both(*sides: _Side) -> list[ResultHalf]:
    """Both clouds at the same time; if one fails, the other's wait ends and the cause is raised."""

    def run(side: _Side) -> ResultHalf:
        try:
            return side.run()
        finally:
            side.channel.close()

    with ThreadPoolExecutor(len(sides)) as threads:
        running = [threads.submit(run, side) for side in sides]
    errors = [error for each in running if (error := each.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, ChannelError)):
        raise error  # a lost channel is only what the other's failure looks like from here
    return [each.result() for each in running]


def _shares(spec: Spec, tables: Sequence[Integers]) -> list[NDArray[Any]]:
    """What each cloud has of the owners' uploads, one behind the other."""
    form, clouds = spec.kind.upload(spec), tuple[Cloud, Cloud]((1, 2))
    seeds = [secrets.token_bytes(SEED_BYTES) for _ in tables]
    shares = []
    for cloud in clouds:
        part = form.part(cloud)
        shares.append(
            np.concatenate(
                [
                    part.rows(seed, 0, len(table))
                    if isinstance(part, SeedPart)
                    else form.chunk(table, seed, 0, cloud)
                    for table, seed in zip(tables, seeds, strict=True)
                ]
            )
        )
    return shares


def _arranged(
    spec: Spec, tables: Sequence[Integers]
) -> tuple[Sequence[Integers], list[Outline | None]]:
    """The rows that owners would send, and the cells that they would tell both clouds.

    Nothing leaves this process, so nothing is charged: noise is that of owners who never were.
    """
    form = spec.kind.upload(spec)
    if not isinstance(form, Arranges):
        return tables, [None] * len(tables)
    rows, outlines, extents = list[Integers](), list[Outline | None](), None
    with TemporaryDirectory(prefix="ppodc-") as folder:
        for number, table in enumerate(tables, 1):
            sent, outline = form.arrange(table, extents, Path(folder, str(number)), _NO_LIMIT)
            if number == 1 and form.follows:
                extents = form.extents(outline)
            rows.append(sent)
            outlines.append(outline)
    return rows, outlines


def _sealed(spec: Spec, tables: Sequence[Integers], outlines: Sequence[Outline | None]) -> Sealed:
    """The uploads of owner1, owner2, ..., one each."""
    uploads = tuple(
        Upload(f"{number:032x}", spec.name, f"owner{number}", len(table), True, True)
        for number, table in enumerate(tables, 1)
    )
    told = {
        upload.upload_id: outline
        for upload, outline in zip(uploads, outlines, strict=True)
        if outline is not None
    }
    return Sealed(sum(map(len, tables)), spec.digest, uploads, told)


def _opened(
    spec: Spec, halves: Sequence[ResultHalf], tables: Sequence[Integers], number: int
) -> Any:
    """The result as one owner opens it: with its own rows of what there is for each row."""
    first, count = sum(map(len, tables[:number])), len(tables[number])
    names = halves[0].halves
    values = {name: open_output(*(half.halves[name] for half in halves)) for name in names}
    rows = {
        name: open_output(*(half.row_halves[name].rows(first, count) for half in halves))
        for name in spec.kind.row_outputs(spec)
    }
    return spec.kind.open_result(spec, OpenedResult(halves[0].facts, values, rows))
