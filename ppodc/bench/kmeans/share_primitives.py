"""The shares suite's rows of `ppodc bench primitives`: time per invocation, offline and online.

Measured are whole iterations over m records between two processes; a half's meter says what each
step took. Supplies are made ahead for all steps together, so the time for each kind is divided
among the primitives by the amounts they use. SBD is no step of its own here: a comparison
takes the sign of a shared difference, so it is counted within SMIN_k.
"""

from fractions import Fraction
from typing import Any

from ppodc.bench import document
from ppodc.bench.document import Table
from ppodc.bench.kmeans import iteration
from ppodc.bench.kmeans.iteration import Run
from ppodc.bench.kmeans.published import table_5_3
from ppodc.bench.points import Points, Task, Tell
from ppodc.bench.points import measure as measure_points
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares import scaling, smin_k, stop_test, sums, update
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc.supplies import Needs

PRIMITIVES = ("scaling", "SSED_OP", "SBD + SMIN_k", "SMP", "other")
_ONLINE = {"scaling": "scaling", "SSED_OP": "SSED_OP", "SMIN_k": "SBD + SMIN_k", "sums": "SMP"}
NOTE = (
    "shares: m = {m}, l = {l}, k = {k}, all records at once. SMP: one product; SSED_OP: one record "
    "and cluster; SBD + SMIN_k: one record, beside {k} SBD and one SMIN_k as published."
)
_SUPPLIES = "supplies"  # the step that makes all kinds
_KEY_BITS = 2048  # of the base transfers, which come before the first iteration


def task(m: int, l: int, k: int, iterations: int) -> Task:
    """Measure an iteration on one pair; the same point for every command that needs it."""
    run = Run("shares", k, 1, iterations, key_bits=_KEY_BITS)

    def work(tell: Tell) -> dict[str, Any]:
        result = run.exact(iteration.random_records(m, l), tell)
        return {**result, "primitives": by_primitive(result)}

    key = {"bench": "iteration", "m": m, "l": l, **run.key()}
    return Task(f"shares, m = {m}, l = {l}, k = {k}", key, work)


def by_primitive(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Seconds of each primitive in an iteration, offline and online, from a measured one."""
    times = {name: {"offline_s": 0.0, "online_s": 0.0} for name in PRIMITIVES}
    shares = _shares_of_supplies(result["m"], result["l"], result["k"], result["ub"])
    for step in result["steps"]:
        name, wall = step["step"], step["wall_s"]
        if step["phase"] == "online":
            times[_ONLINE.get(name, "other")]["online_s"] += wall
        elif name == _SUPPLIES:
            for primitive, part in shares.items():
                times[primitive]["offline_s"] += part * wall
        else:
            times["SSED_OP" if name == "products" else "other"]["offline_s"] += wall
    return times


def _shares_of_supplies(m: int, l: int, k: int, ub: int) -> dict[str, float]:
    """The part of the supplies, by bytes, that each primitive uses up in an iteration."""
    rings = Rings.of(Parameters(m, l, k, ub, Fraction(0)))
    scale = scaling.widen_needs(k, l, rings)
    if k > 1:
        scale += scaling.centre_needs(k, l, rings)
    needs: dict[str, Needs] = {
        "scaling": scale,
        "SBD + SMIN_k": smin_k.needs(m, k, rings.distance_bits),
        "SMP": sums.needs(m, k),
        "other": update.small_needs(k) + stop_test.needs(k, l, rings),
    }
    total = sum(need.sent for need in needs.values())
    return {name: need.sent / total for name, need in needs.items() if total} or {"other": 1.0}


def rows(m: int, l: int, k: int, iterations: int, points: Points) -> list[dict[str, Any]]:
    """Rows of Table 5.3 for the shares suite: milliseconds per invocation."""
    (cost,) = measure_points("primitives", [task(m, l, k, iterations)], points)
    count = {"SMP": m * k * l, "SSED_OP": m * k, "SBD + SMIN_k": m}
    return [
        {
            "suite": "shares",
            "primitive": name,
            "mode": mode,
            "ms": 1000 * sum(cost["primitives"][name][f"{phase}_s"] for phase in phases) / number,
            "published_ms": _published(name, mode, l, k),
        }
        for name, number in count.items()
        for mode, phases in (("online+offline", ("online", "offline")), ("online", ("online",)))
    ]


def _published(name: str, mode: str, l: int, k: int) -> int | None:
    """Table 5.3; a record's SMIN_k needs k numbers from SBD."""
    if name != "SBD + SMIN_k":
        return table_5_3(name, mode, l, k)
    bits, least = (table_5_3(each, mode, l, k) for each in ("SBD", "SMIN_k"))
    return None if bits is None or least is None else k * bits + least


def table(rows: list[dict[str, Any]]) -> Table:
    """Microseconds per invocation, and the published milliseconds."""
    for row in (rows := [{**row, row["mode"]: row["ms"]} for row in rows]):
        row["published"] = "-" if row["published_ms"] is None else f"{row['published_ms']:,} ms"
    return document.table_of(
        "shares: time per invocation",
        "primitive | offline + online | online | published online",
        "{primitive} | {online+offline:/1e-3 ,.3g} µs | {online:/1e-3 ,.3g} µs | {published}",
        document.joined(rows, "primitive"),
    )
