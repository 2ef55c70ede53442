"""What an iteration of the paillier suite would take, from a few measured records.

Its cost per record does not depend on the other records, only on the widths of the job's numbers.
So some records run through the protocol with the widths of all m, and the time is multiplied:
seconds = m * (seconds per record) + (scaling, re-seeding and the stop test, once). Whatever uses
this says so beside its figures.
"""

from functools import partial
from typing import Any

from ppodc.bench.paillier_steps import SOURCES, batch_of, make_case, measure, measure_whole
from ppodc.bench.points import Task, Tell
from ppodc.pair_half import Mode

ONCE = ("scale", "reseed", "stop test")
SPLIT = ("SSED_OP", "SBD", "SMIN_k", "sums")


def note(records: int) -> str:
    """What must stand beside every estimate."""
    return (
        f"paillier: estimated, {records} measured records (in batches of {batch_of(records)}) "
        "times m, plus what is done once."
    )


def whole_task(
    m: int,
    l: int,  # noqa: E741
    k: int,
    mode: Mode,
    key_bits: int,
    records: int,
) -> Task:
    """Estimate an iteration in one mode, one pair."""
    return _task("whole", m, l, k, mode, key_bits, records)


def split_task(
    m: int,
    l: int,  # noqa: E741
    k: int,
    mode: Mode,
    key_bits: int,
    records: int,
) -> Task:
    """The same, primitive by primitive."""
    return _task("split", m, l, k, mode, key_bits, records)


def _task(
    kind: str,
    m: int,
    l: int,  # noqa: E741
    k: int,
    mode: Mode,
    key_bits: int,
    records: int,
) -> Task:
    key = {"bench": "estimate", "suite": "paillier", "kind": kind, "m": m, "l": l, "k": k,
           "mode": mode, "key_bits": key_bits, "records": records}  # fmt: skip
    label = f"paillier, {mode}, m = {m}, l = {l}, k = {k}"
    return Task(label, key, partial(_measure, kind, m, l, k, mode, key_bits, records))


def _measure(
    kind: str,
    m: int,
    l: int,  # noqa: E741
    k: int,
    mode: Mode,
    key_bits: int,
    records: int,
    tell: Tell,
) -> dict[str, Any]:
    tell(f"{records} records")
    case = make_case(m, l, k, key_bits, records)
    run = measure if kind == "split" else measure_whole
    samples = run(case, mode, SOURCES[mode], insecure=key_bits < 2048)
    each = [name for name in (*SPLIT, "record") if name in samples]
    per_record = {name: samples[name].seconds / len(case.records) for name in each}
    once = {name: samples[name].seconds for name in ONCE}
    return {
        "per_record_s": per_record,
        "once_s": once,
        "iteration_s": m * per_record["record"] + sum(once.values()),
        "estimated": True,
    }
