"""The closed form against times worked out by hand and against measured runs; its predictions."""

from dataclasses import replace
from fractions import Fraction

import pytest

from ppodc.bench import network_presets
from ppodc.bench.kmeans import closed_form, simulate
from ppodc.bench.kmeans.closed_form import Model, Part, Portions, calibrate
from ppodc.bench.kmeans.estimate import Line
from ppodc.bench.kmeans.simulate import Job
from ppodc.bench.network_presets import Link
from ppodc.bench.options import duration, whole
from ppodc.bench.points import Points
from ppodc.errors import InputError
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares.assignment import AHEAD_BYTES
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc.lattice.parameters import choose
from tests.bench.look import check_document, check_plot

NONE = Line()
SLOW = Link("slow", gbit_s=8e-3, one_way_ms=100, usd_per_gb=0)  # a million bytes a second


def model(**changes) -> Model:
    """A millisecond of supplies for each row, half of one on records; 0.2 s on clusters."""
    base = Model(
        supplies=Part(Line(0.0, 0.001), Line(0.0, 1000.0), Line(4.0), NONE),
        records=Part(Line(0.0, 0.0005), Line(0.0, 100.0), Line(10.0), Line(9.0)),
        clusters=Part(Line(0.2), Line(500.0), Line(20.0), Line(12.0)),
        ingest=Part(Line(0.0, 0.0001), Line(0.0, 10.0), Line(0.0, 0.01), Line(7.0)),
        c2_share=1.0,
        start_s=1.0,
        round_s=0.0,
        portions=Portions(),
    )
    return replace(base, **changes)


def test_pairs_with_cores_of_their_own_scale_and_those_that_share_do_not():
    one, two = (model().iteration_s(simulate.split(1000, pairs), None) for pairs in (1, 2))
    assert one == pytest.approx((1.0, 0.5 + 0.2))
    assert two == pytest.approx((0.5, 0.25 + 0.2)), "one pair does the clusters for both"
    offline, _ = model().iteration_s([500, 500], None, cores=2)
    assert offline == pytest.approx(1.0), "four workers, two cores"


def test_work_in_turns_leaves_a_core_idle_that_a_second_pair_uses():
    turns = model(serial=1.0)
    assert turns.iteration_s([1000], None, cores=2)[0] == pytest.approx(2.0)
    assert turns.iteration_s([500, 500], None, cores=2)[0] == pytest.approx(1.0)


def test_the_link_adds_its_bytes_and_its_latency():
    _, online = model().iteration_s([1000], SLOW)
    clusters = 0.2 + 12 * 0.1
    assert online == pytest.approx(0.5 + 0.1 + 9 * 0.1 + clusters), "waits, not rounds"
    narrow = replace(SLOW, one_way_ms=0, total_gbit_s=8e-3)
    offline, _ = model().iteration_s([500, 500], narrow)
    assert offline == pytest.approx(1.0), "two pairs share the bandwidth of one"


def test_supplies_are_sent_while_the_next_lot_is_made():
    """A second of work, a second of sending, 4 lots; then the way of the last one."""
    offline, _ = model().iteration_s([1000], SLOW)
    assert offline == pytest.approx((4 * 0.1 + 1.0 + 1.0) / 2 + 0.1)
    fast = replace(SLOW, gbit_s=1e9)
    assert model().iteration_s([1000], fast)[0] == pytest.approx(1.0 + 0.1), "hidden by work"
    far = replace(SLOW, one_way_ms=1000)
    assert model().iteration_s([1000], far)[0] == pytest.approx((4.0 + 1.0 + 1.0) / 2 + 1.0)


def test_a_table_for_clusters_is_streamed():
    streams = model(clusters=Part(Line(1.0), Line(2e6), Line(120.0), Line(4.0)), records=EMPTY)
    _, online = streams.iteration_s([10], SLOW)
    assert online == pytest.approx(2.0 + 4 * 0.1), "two seconds of sending hide the work"


EMPTY = Part(NONE, NONE, NONE, NONE)


def test_supplies_that_do_not_fit_are_made_online():
    small = model(portions=Portions(supplies=Line(0.0, AHEAD_BYTES / 2000)))
    whole_online = 1.0 + 0.2
    assert small.iteration_s([2000], None) == pytest.approx((2.0, whole_online))
    offline, online = small.iteration_s([8000], None)
    assert (offline, online) == pytest.approx((2.0, 6.0 + 4.0 + 0.2))


def test_waits_recur_with_every_chunk():
    chunked = model(portions=Portions(chunk_rows=400), clusters=EMPTY)
    _, online = chunked.iteration_s([1000], SLOW)
    assert online == pytest.approx(0.5 + 0.1 + 3 * 9 * 0.1)
    portions = closed_form.portions(Job(10**6).params)
    wide = closed_form.portions(Job(10**6, k=64).params)
    assert wide.chunk_rows < portions.chunk_rows, "fewer records at a time with many clusters"


def test_taking_in_records_waits_too():
    assert model().ingest_s(1000, 1, SLOW) == pytest.approx(0.1 + 0.01 + 7 * 0.1)
    stretches = model(portions=Portions(ingest_rows=400))
    assert stretches.ingest_s(1000, 1, SLOW) == pytest.approx(0.1 + 0.01 + 3 * 7 * 0.1)


# ------------------------------------------------------------- calibration


def run_of(m, steps, **changes):
    """The figures of `iteration.Run` that calibrate."""
    keys = ("step", "phase", "fastest_s", "cpu_s", "bytes", "rounds")
    named = [dict(zip(keys, step, strict=True)) for step in steps]
    cpu = sum(step["cpu_s"] for step in named)
    sent = sum(step["bytes"] for step in named)
    figures = {"m": m, "steps": named, "cpu_c1_s": cpu, "cpu_c2_s": cpu, "total_s": 1.0}
    figures |= {"bytes_c1_to_c2": sent, "bytes_c2_to_c1": sent, "rounds": 8, "start_s": 1.0}
    ingest = {"ingest_cpu_s": [1.0, 1.0], "ingest_bytes": [10, 10], "ingest_rounds": 5}
    load = {"others": 1.0, "free_cores": 2.0}
    return {**figures, **ingest, **load, "ingest_s": 1.0, **changes}


def runs_of(scaling, sums, **changes):
    """Small, large, and small over a far link, by the seconds of two steps."""
    costs = {"scaling": (0.4, 10, 120), "sums": (0.1, 1, 2)}
    return [
        run_of(m, [(name, "online", s, *costs[name]) for name, s in steps.items()], **more)
        for m, steps, more in zip(
            (100, 200, 100),
            ({"scaling": a, "sums": b} for a, b in zip(scaling, sums, strict=True)),
            ({}, changes, {"ingest_s": 1.9}),
            strict=True,
        )
    ]


def test_waits_are_what_a_far_link_adds_not_the_rounds():
    runs = runs_of((0.5, 0.5, 1.1), (0.1, 0.2, 0.3))
    found = calibrate(runs, 0.1, Portions())
    assert found.clusters.waits.at(100) == pytest.approx(6)
    assert found.records.waits.at(100) == pytest.approx(2)
    assert found.ingest.waits.at(100) == pytest.approx(9)
    assert found.serial == 0, "the wall time of a busy machine is not believed"


def test_on_an_idle_machine_turns_explain_the_wall_time():
    runs = runs_of((0.5, 0.5, 1.1), (0.1, 0.2, 0.3), others=0.0, total_s=0.75)
    found = calibrate(runs, 0.1, Portions())
    assert 0 < found.serial < 1
    assert sum(found.iteration_s([200], None, 2.0)) == pytest.approx(0.75)
    quick = runs_of((0.5, 0.5, 1.1), (0.1, 0.2, 0.3), others=0.0, total_s=0.1)
    assert calibrate(quick, 0.1, Portions()).serial == 0


def test_a_suite_without_steps_waits_in_proportion_to_its_rounds():
    cpu = {"cpu_c1_s": 0.5, "cpu_c2_s": 0.5}
    small, large = run_of(10, [], rounds=80, **cpu), run_of(20, [], rounds=160, **cpu)
    far = run_of(10, [], rounds=80, total_s=3.0, **cpu)
    found = calibrate([small, large, far], 0.1, Portions())
    assert found.records.waits.at(40) == pytest.approx(4 * 20)
    assert found.records.cpu == Line(0.5, 0.0)


def test_lines_are_never_negative():
    assert Line.through((10, 20), (5.0, 5.0)) == Line(5.0, 0.0)
    assert Line.through((10, 20), (5.0, 3.0)) == Line(3.0, 0.0)
    falling = Line.through((10, 20), (1.0, 9.0))
    assert falling.fixed == 0
    assert falling.at(20) == pytest.approx(9.0)


# ------------------------------------------------------------- prediction


def test_money_and_bytes_of_a_hand_worked_job():
    """Two pairs: 4 cores for 0.5 + 0.25 + 0.2 s; bytes both ways at a dollar a GB."""
    job = Job(1000, iterations=3, usd_core_hour=3600.0, dispatch_ms=0.0)
    link = Link("dear", gbit_s=1e9, one_way_ms=0, usd_per_gb=1.0)
    point = simulate.point(job, model(), 2, link)
    sent = 2 * (1000 * 1000 + 1000 * 100 + 500)
    assert point["bytes"] == pytest.approx(sent)
    assert point["iteration_s"] == pytest.approx(0.95)
    assert point["usd_iteration"] == pytest.approx(4 * 0.95 + sent / 1e9)
    assert point["job_s"] == pytest.approx(1.0 + 0.05 + 3 * 0.95)
    taken_in = 2 * 1000 * 10
    assert point["usd_job"] == pytest.approx(4 * 3.9 + (3 * sent + taken_in) / 1e9)
    assert point["worker_gb"] == simulate.worker_bytes(job, 500) / 1e9
    slower = simulate.point(replace(job, dispatch_ms=10.0), model(), 2, link)
    assert slower["iteration_s"] == pytest.approx(0.95 + 2 * 2 * 0.01)


def test_what_a_worker_keeps():
    """Keys of 32 bytes a bit, or whole blocks of the peer's encrypted records; and the shares."""
    assert simulate.worker_bytes(Job(999), 500) == 500 * 10 * (32 * 10 + 8 * 2 + 4)
    lattice = choose(Rings.of(Parameters(20_000, 10, 4, 1000, Fraction(0))).point.product_bits, 10)
    block = 2 * 4 * len(lattice.primes) * 16384
    assert simulate.worker_bytes(Job(20_000), 16_385) == 10 * (16_385 * 8 * 2 + 2 * block)


def fewest(within_s, dispatch_ms):
    job = Job(100_000, iterations=2, within_s=within_s, dispatch_ms=dispatch_ms)
    return simulate.fewest(job, model(), network_presets.LINKS["lan"])


def seconds(pairs, dispatch_ms):
    job = Job(100_000, iterations=2, dispatch_ms=dispatch_ms)
    return simulate.point(job, model(), pairs, network_presets.LINKS["lan"])["job_s"]


@pytest.mark.parametrize("share", [0.9, 0.3, 0.1, 0.02])
def test_one_pair_less_would_not_do(share):
    limit = share * seconds(1, 1.0)
    answer = fewest(limit, 1.0)
    assert answer["answer"]
    assert answer["job_s"] <= limit < seconds(answer["pairs"] - 1, 1.0)


def test_where_no_number_suffices_the_fastest_is_reported():
    best = fewest(1e-3, 3.0)
    assert not best["answer"]
    assert best["job_s"] <= min(seconds(best["pairs"] + step, 3.0) for step in (-1, 1))
    assert fewest(best["job_s"], 3.0)["answer"], "a possible number is not denied"


def test_rows_are_split_evenly():
    assert simulate.split(10, 4) == [3, 3, 2, 2]


def test_links_can_be_changed_and_wrong_ones_are_refused():
    assert network_presets.link("wan") == network_presets.LINKS["wan"]
    assert network_presets.link("wan", one_way_ms=0, gbit_s=2).gbit_s == 2
    for wrong in ({"gbit_s": 0.0}, {"one_way_ms": -1.0}, {"total_gbit_s": 0.0}):
        with pytest.raises(InputError):
            network_presets.link("lan", **wrong)
    with pytest.raises(InputError, match="no link"):
        network_presets.link("moon")


# ------------------------------------------------------------- the command

SHAPE = {"m": 300, "l": 2, "k": 2, "iterations": 5, "key_bits": 512}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Where a small calibration is kept, as the command keeps it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "FAR", replace(simulate.FAR, one_way_ms=20))
        patch.setitem(simulate.RUNS, "shares", (40, 160, 80, 1))
        yield tmp_path_factory.mktemp("simulate") / "points.jsonl"


@pytest.fixture(scope="module")
def result(file):
    return simulate.run(**SHAPE, pairs=(1, 4, 64), within=1.0, points=Points(file))


def test_a_run_gives_calibration_checks_and_predictions(result, tmp_path):
    shown = check_document(result, "simulate")
    for text in ("SIMULATED", "Model against measurement", "for each record"):
        assert text in shown, text
    checks = result["parameters"]["checks"]
    assert [c["pairs"] for c in checks] == [1, 1, 1, 1, 2, 1]
    assert [c["link"] for c in checks] == [None, None, "far", None, None, "wan"]
    assert [c["used_to_calibrate"] for c in checks] == [True] * 3 + [False] * 3
    assert all(c["measured_s"] > 0 and c["predicted_s"] > 0 for c in checks)
    plain = [x for x in result["points"] if "answer" not in x]
    assert [x["pairs"] for x in plain] == [1, 4, 64] * 3
    assert all(x["simulated"] and x["usd_iteration"] > 0 for x in plain)
    simulate.draw(result, tmp_path / "plot.png")
    check_plot(tmp_path / "plot.png")


def test_measured_points_are_not_measured_again(result, file, monkeypatch):
    monkeypatch.setattr(simulate.Run, "over", None)
    again = simulate.run(**SHAPE, pairs=(1, 4, 64), within=1.0, points=Points(file))
    assert again == result
    limit = max(x["job_s"] for x in result["points"])
    asked = {**SHAPE, "pairs": (), "points": Points(file)}
    enough = simulate.run(**asked, within=limit, link="lan")
    (answer,) = enough["points"]
    assert answer["answer"]
    assert answer["job_s"] <= limit
    assert f"{answer['pairs']} pair(s)" in enough["notes"][0]
    too_few = simulate.run(**asked, within=1e-3, link="wan")
    assert not too_few["points"][0]["answer"]
    assert "no number of pairs" in too_few["notes"][0]


def keys_of(job, monkeypatch):
    seen = []
    monkeypatch.setattr(simulate, "measure", lambda _, tasks, __: seen.extend(tasks) or [])
    simulate.measure_runs(job, Points())
    return [task.key for task in seen]


@pytest.mark.parametrize("m", [100, 160, 80, 40])
def test_no_run_both_calibrates_and_checks(m, monkeypatch):
    monkeypatch.setitem(simulate.RUNS, "shares", (40, 160, 80, 1))
    keys = keys_of(Job(m, 2, 2), monkeypatch)
    assert len({str(sorted(key.items(), key=str)) for key in keys}) == 6
    rows = [key["rows"] for key in keys]
    assert rows[0] == rows[2]
    assert rows[3] == rows[4] == rows[5]
    assert len(set(rows)) == 3
    assert max(rows) <= m


def test_more_clusters_than_rows_of_a_run(monkeypatch):
    keys = keys_of(Job(1000, 2, 8, suite="paillier"), monkeypatch)
    assert min(key["rows"] for key in keys) == 8
    with pytest.raises(InputError, match="too few"):
        simulate.measure_runs(Job(8, 2, 8), Points())


def test_too_many_pairs_or_records_are_refused():
    for m, pairs in ((100, (2000,)), (10**10, (1,))):
        with pytest.raises(InputError, match="Simulate k to"):
            simulate.run(m, pairs=pairs, points=Points())


def test_numbers_of_records_as_people_write_them():
    assert [whole(text) for text in ("1e9", "63,608", "40")] == [10**9, 63_608, 40]
    for wrong in ("many", "1.5", "1e-3", "inf", "nan", ""):
        with pytest.raises(InputError):
            whole(wrong)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600), ("90s", 90), ("1.5 h", 5400), ("30min", 1800), ("2d", 172_800)],
)
def test_times_are_understood(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1", "0", "1.2.3", "an hour", "1h30", "inf", "nan"])
def test_a_text_that_is_no_time_is_refused(text):
    with pytest.raises(InputError, match="is not a time"):
        duration(text)
