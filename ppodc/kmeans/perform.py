"""The tasks of a k-means job's steps, as a worker's half does them."""

from collections.abc import Callable, Sequence
from typing import Any

from ppodc.errors import InputError
from ppodc.kmeans.half import Half, State
from ppodc.kmeans.plan import Parts
from ppodc.linkage.plan import checked_portion
from ppodc.pairs.plan import Progress, Task
from ppodc.records.result_shares import OutputShare


def perform(half: Half, task: Task, progress: Progress) -> Any:
    """Do the task."""
    return _PERFORM[task.name](half, task, progress)


def _assign(half: Half, task: Task, progress: Progress) -> State:
    """`agreed` ends with whether records may be assigned again."""
    parts, scaled = task.inputs
    clusters = _joined(half, parts)
    if scaled is not None:
        half.take_scaled(clusters, scaled)
    again, last = bool(task.agreed[-1]), task.shards[-1]
    return half.add(
        [
            half.assign(shard, clusters, progress, more=again or shard != last)
            for shard in task.shards
        ]
    )


def _update(half: Half, task: Task, _progress: Progress) -> tuple[Any, ...]:
    """`agreed` says whether other pairs will want the centres, and how many iterations may follow:
    0, 1, or 2 for more; with one pair alone, which has the shards that the task names.

    The fields of `plan.Iterated`: that class would have Ray's drivers load the kernels."""
    clusters, parts, candidates = task.inputs
    began, sums = _joined(half, clusters), half.add(parts)
    if task.agreed[1]:
        half.expect_assign(task.shards, more=task.agreed[1] > 1)
    new, stop = half.update(began, sums, _joined(half, candidates))
    scaled = half.scaled(new) if task.agreed[0] and not stop else None
    return new, began, sums, stop, scaled


def _iterate(half: Half, task: Task, progress: Progress) -> tuple[Any, ...]:
    """`agreed` begins with whether records may be assigned again and with how many iterations may
    follow, as for `update`; behind them are the rows of the stand-ins, which both clouds know."""
    again, following, *_ = task.agreed
    clusters, stand_ins = task.inputs
    candidates = tuple(half.records(shard, rows) for shard, rows in stand_ins)
    sums = _assign(half, Task("assign", task.shards, (again,), (clusters, None)), progress)
    inputs = (clusters, (sums,), candidates)
    return _update(half, Task("update", task.shards, (0, following), inputs), progress)


def _link(half: Half, task: Task, progress: Progress) -> Any:
    _, *inputs = task.inputs
    return half.link(checked_portion(task), *inputs, task.agreed[3], progress)


def _fill(half: Half, task: Task, _progress: Progress) -> None:
    for shard, inputs in zip(task.shards, task.inputs, strict=True):
        half.fill(shard, *inputs)


def _dedup(half: Half, task: Task, _progress: Progress) -> None:
    for shard, inputs in zip(task.shards, task.inputs, strict=True):
        half.count_once(shard, *inputs)


def _own_rows(half: Half, task: Task, _progress: Progress) -> list[OutputShare]:
    pairs = zip(task.shards, task.inputs, strict=True)
    return [half.own_rows(shard, *inputs) for shard, inputs in pairs]


def _spread(half: Half, task: Task, _progress: Progress) -> State:
    start, chosen = task.inputs
    records = _joined(half, chosen)
    return half.join([half.spread(shard, records, start) for shard in task.shards])


def _pick(half: Half, task: Task, _progress: Progress) -> State:
    """The chosen record, or zeros; `rows` end with the number of the first shard here and whether
    the last of all is here."""
    word, totals = task.inputs
    first, has_last = task.agreed[-2:]
    everywhere = _joined(half, totals)
    end = len(task.shards) - 1
    return half.add(
        [
            half.pick(shard, everywhere, first + i, word, last=bool(has_last) and i == end)
            for i, shard in enumerate(task.shards)
        ]
    )


def _labels(half: Half, task: Task, _progress: Progress) -> list[OutputShare]:
    """Of joined rows the task has the sums of all clusters."""
    if task.inputs:
        return [half.joined_labels(shard, *task.inputs) for shard in task.shards]
    return [half.labels(shard) for shard in task.shards]


def _better(half: Half, task: Task, _progress: Progress) -> Sequence[State]:
    old, new = task.inputs
    return half.better(old, new)


def _squares(half: Half, task: Task, _progress: Progress) -> State:
    return half.add([half.squares(shard) for shard in task.shards])


def _members(half: Half, task: Task, _progress: Progress) -> State:
    """`agreed` has the number of owners; of joined rows, also those whose partners are told."""
    pairs = zip(task.shards, task.inputs, strict=True)
    return half.add([half.members(shard, runs, *task.agreed) for shard, runs in pairs])


def _output(half: Half, task: Task, _progress: Progress) -> list[OutputShare]:
    """`agreed` has the number of owners who are told apart, or 1."""
    sums, squares, members = task.inputs
    norms, counts = (half.add(each) if each else None for each in (squares, members))
    return half.output(sums, norms, counts, task.agreed[0])


_PERFORM: dict[str, Callable[[Half, Task, Progress], Any]] = {
    "records": lambda half, task, _: half.records(task.shards[0], task.agreed),
    "link": _link,
    "home": lambda half, task, _: half.home(*task.inputs),
    "dedup": _dedup,
    "fill": _fill,
    "own-rows": _own_rows,
    "centres": lambda half, task, _: half.centres(task.inputs[0]),
    "spread": _spread,
    "pick": _pick,
    "assign": _assign,
    "update": _update,
    "iterate": _iterate,
    "better": _better,
    "squares": _squares,
    "members": _members,
    "output": _output,
    "labels": _labels,
}


def _joined(half: Half, parts: Parts) -> State:
    """Clusters of several parts, one behind the other; a part of several pairs is added up."""
    if not parts:
        raise InputError("a step came without clusters.")
    whole = [half.add(part) if isinstance(part, tuple) else part for part in parts]
    return whole[0] if len(whole) == 1 else half.join(whole)
