"""The model against times worked out by hand and against measured runs; what it predicts."""

from dataclasses import replace
from fractions import Fraction

import pytest

from ppodc.bench import calibration, cost_model, fitted_costs, network_presets, simulate
from ppodc.bench.calibration import Job, Runs
from ppodc.bench.cost_model import Costs, Portions, Setting, StepCost
from ppodc.bench.estimate import Line
from ppodc.bench.fitted_costs import Measured
from ppodc.bench.network_presets import Link
from ppodc.bench.points import Points
from ppodc.bench.simulate import Assumed
from ppodc.cli.written_values import duration, whole
from ppodc.errors import InputError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.shares import sums
from ppodc.kmeans.shares.half import AHEAD_BYTES
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc.lattice_parameters import choose
from tests.bench.look import check_document, check_plot


def costs(**changes) -> Costs:
    steps = (
        StepCost("leaves", True, Line(0.0, 0.001), Line(0.0, 1000.0), Line(2.0)),
        StepCost("SMIN_k", False, Line(0.0, 0.0005), Line(0.0, 100.0), Line(10.0), Line(9.0)),
        StepCost("stop test", False, Line(0.2), Line(500.0), Line(20.0), Line(12.0)),
    )
    taking_in = Line(0.0, 0.0001), Line(0.0, 10.0), Line(0.0, 0.01), Line(7.0)
    ingest = StepCost("ingest", True, *taking_in)
    base = Costs(steps, 1.0, ingest, start_s=1.0, round_s=0.0)
    return replace(base, **changes)


def test_pairs_with_cores_of_their_own_scale_and_those_that_share_do_not():
    apart = Setting(None, None)
    one = cost_model.predict(costs(), cost_model.split(1000, 1), apart)
    two = cost_model.predict(costs(), cost_model.split(1000, 2), apart)
    assert one.offline_s == pytest.approx(1.0)
    assert one.online_s == pytest.approx(0.5 + 0.2)
    assert two.offline_s == pytest.approx(0.5)
    assert two.online_s == pytest.approx(0.25 + 0.2), "one pair does the stop test for both"
    shared = cost_model.predict(costs(), cost_model.split(1000, 2), Setting(2, None))
    assert shared.offline_s == pytest.approx(1.0), "four workers, two cores"


def test_work_in_turns_leaves_a_core_idle_that_a_second_pair_uses():
    turns = costs(serial=1.0)
    one = cost_model.predict(turns, [1000], Setting(2, None))
    two = cost_model.predict(turns, [500, 500], Setting(2, None))
    assert one.offline_s == pytest.approx(2.0)
    assert two.offline_s == pytest.approx(1.0)


def test_the_link_adds_its_bytes_and_its_latency():
    slow = Link("slow", gbit_s=8e-3, one_way_ms=100, usd_per_gb=0)  # a million bytes a second
    found = cost_model.predict(costs(), [1000], Setting(None, slow))
    stop_test = 0.2 + 0.0005 + 12 * 0.1
    assert found.online_s == pytest.approx(0.5 + 0.1 + 9 * 0.1 + stop_test), "waits, not rounds"
    narrow = replace(slow, one_way_ms=0, total_gbit_s=8e-3)
    shared = cost_model.predict(costs(), [500, 500], Setting(None, narrow))
    assert shared.offline_s == pytest.approx(1.0), "two pairs share what one had alone"


def offline_s(step, link, rows=1000, **changes):
    found = cost_model.predict(costs(steps=(step,), **changes), [rows], Setting(None, link))
    return found.offline_s


def test_supplies_are_sent_while_the_next_lot_is_made():
    """A second of work, a second of sending, 4 lots; then the way of the last one."""
    link = Link("slow", gbit_s=8e-3, one_way_ms=100, usd_per_gb=0)
    step = StepCost("leaves", True, Line(0.0, 0.001), Line(0.0, 1000.0), Line(4.0))
    hidden = (4 * 0.1 + 1.0 + 1.0) / 2
    assert offline_s(step, link) == pytest.approx(hidden + 0.1)
    fast = replace(link, gbit_s=1e9)
    assert offline_s(step, fast) == pytest.approx(1.0 + 0.1), "work hides all but one latency"
    far = replace(link, one_way_ms=1000)
    assert offline_s(step, far) == pytest.approx((4.0 + 1.0 + 1.0) / 2 + 1.0), "lots wait"


def test_a_look_up_streams_its_table():
    link = Link("slow", gbit_s=8e-3, one_way_ms=100, usd_per_gb=0)
    step = StepCost("scaling", False, Line(1.0), Line(2e6), Line(120.0), Line(4.0))
    found = cost_model.predict(costs(steps=(step,)), [10], Setting(None, link))
    assert found.online_s == pytest.approx(2.0 + 4 * 0.1), "two seconds of sending hide the work"


def test_supplies_that_do_not_fit_are_made_online_with_each_chunk():
    """A quarter fits; 8 chunks, 6 of which make their own and wait for it."""
    link = Link("far", gbit_s=1e9, one_way_ms=100, usd_per_gb=0)
    step = StepCost("leaves", True, Line(0.0, 0.001), Line(), Line(0.0, 0.004))
    portions = Portions(1000, Line(0.0, AHEAD_BYTES / 2000), 0.0)
    small = cost_model.predict(costs(steps=(step,), portions=portions), [2000], Setting(None, link))
    assert (small.offline_s, small.online_s) == (pytest.approx(2.0 + 0.1), 0)
    large = cost_model.predict(costs(steps=(step,), portions=portions), [8000], Setting(None, link))
    assert large.offline_s == pytest.approx(2.0 + 0.1)
    assert large.online_s == pytest.approx(6.0 + 6 * 0.1)


def test_products_that_do_not_fit_are_made_online():
    step = StepCost("products", True, Line(0.0, 0.001), Line(), Line(1.0), Line(1.0))
    made = costs(steps=(step,), portions=Portions(1000, Line(), 2.0**27 / 2000))
    for rows, offline in ((2000, 2.0), (2001, 0.0)):
        found = cost_model.predict(made, [rows], Setting(None, None))
        assert (found.offline_s, found.online_s) == pytest.approx((offline, rows / 1e3 - offline))


def run_of(m, steps, **changes):
    """What `iteration.Run` tells of a run, as far as the model wants it."""
    keys = ("step", "phase", "fastest_s", "cpu_s", "bytes", "rounds")
    told = [dict(zip(keys, step, strict=True)) for step in steps]
    cpu = sum(step["cpu_s"] for step in told)
    sent = sum(step["bytes"] for step in told)
    figures = {"m": m, "steps": told, "cpu_c1_s": cpu, "cpu_c2_s": cpu, "total_s": 1.0}
    figures |= {"bytes_c1_to_c2": sent, "bytes_c2_to_c1": sent, "rounds": 8, "start_s": 1.0}
    ingest = {"ingest_cpu_s": [1.0, 1.0], "ingest_bytes": [10, 10], "ingest_rounds": 5}
    return {**figures, **ingest, "ingest_s": 1.0, **changes}


def test_waits_are_what_a_far_link_adds_not_the_rounds():
    small = run_of(
        100, [("scaling", "online", 0.5, 0.4, 10, 120), ("sums", "online", 0.1, 0, 1, 2)]
    )
    large = run_of(
        200, [("scaling", "online", 0.5, 0.4, 10, 120), ("sums", "online", 0.2, 0, 2, 5)]
    )
    far = run_of(
        100,
        [("scaling", "online", 1.1, 0.4, 10, 120), ("sums", "online", 0.3, 0, 1, 2)],
        ingest_s=1.9,
    )
    runs = Measured(small, large, far, 0.1, 2.0, quiet=False)
    found = fitted_costs.calibrate(runs, Portions())
    waits = {step.name: step.waits.fixed for step in found.steps}
    assert waits == {"scaling": pytest.approx(6), "sums": pytest.approx(2), "other": 0}
    assert found.ingest.waits.at(100) == pytest.approx(9)
    assert found.serial == 0, "a busy machine's wall time is not believed"
    calm = fitted_costs.calibrate(replace(runs, quiet=True), Portions())
    assert cost_model.predict(calm, [200], Setting(2.0, None)).iteration_s <= 1.0


def test_a_suite_without_steps_waits_in_proportion_to_its_rounds():
    small, large = run_of(10, [], rounds=80), run_of(20, [], rounds=160)
    far = run_of(10, [], rounds=80, total_s=3.0)
    found = fitted_costs.calibrate(
        Measured(
            *({**run, "cpu_c1_s": 0.5, "cpu_c2_s": 0.5} for run in (small, large, far)),
            0.1, 2.0, quiet=False,
        ),
        Portions(),
    )  # fmt: skip
    (rest,) = found.steps
    assert rest.waits.at(40) == pytest.approx(4 * 20)


def test_taking_in_records_waits_too():
    link = Link("far", gbit_s=8e-3, one_way_ms=100, usd_per_gb=0)
    found = cost_model.predict(costs(), [1000], Setting(None, link))
    assert found.ingest_s == pytest.approx(0.1 + 0.01 + 7 * 0.1)
    stretches = costs(portions=Portions(taken_rows=400))
    found = cost_model.predict(stretches, [1000], Setting(None, link))
    assert found.ingest_s == pytest.approx(0.1 + 0.01 + 3 * 7 * 0.1)


def test_money_and_bytes_of_a_hand_worked_job():
    """Two pairs: 4 cores for 0.5 + 0.25 + 0.2 s; bytes both ways at a dollar a GB."""
    job = Job(1000, iterations=3)
    link = Link("dear", gbit_s=1e9, one_way_ms=0, usd_per_gb=1.0)
    point = simulate._point(job, costs(), 2, Setting(None, link), Assumed(3600.0))
    sent = 2 * (1000 * 1000 + 1000 * 100 + 500)
    assert point["bytes"] == pytest.approx(sent)
    assert point["iteration_s"] == pytest.approx(0.95)
    assert point["usd_iteration"] == pytest.approx(4 * 0.95 + sent / 1e9)
    assert point["job_s"] == pytest.approx(1.0 + 0.05 + 3 * 0.95)
    taken_in = 2 * 1000 * 10
    assert point["usd_job"] == pytest.approx(4 * 3.9 + (3 * sent + taken_in) / 1e9)
    assert point["worker_gb"] == simulate.worker_bytes(job, 500) / 1e9


def test_what_a_worker_keeps():
    """Keys of 32 bytes a bit, or whole blocks of the peer's encrypted records; and the shares."""
    assert simulate.worker_bytes(Job(999), 500) == 500 * 10 * (32 * 10 + 8 * 2 + 4)
    lattice = choose(Rings.of(Parameters(20_000, 10, 4, 1000, Fraction(0))).point.product_bits, 10)
    block = 2 * 4 * len(lattice.primes) * 16384
    assert simulate.worker_bytes(Job(20_000), 16_385) == 10 * (16_385 * 8 * 2 + 2 * block)


def fewest(job, within_s, dispatch_s):
    setting = Setting(None, None, dispatch_s)
    return simulate._fewest(job, costs(), setting, Assumed(), within_s)


@pytest.mark.parametrize("share", [0.9, 0.3, 0.1, 0.02])
def test_one_pair_less_would_not_do(share):
    job = Job(100_000, iterations=2)
    setting = Setting(None, None, 0.001)

    def seconds(pairs):
        found = cost_model.predict(costs(), cost_model.split(job.m, pairs), setting)
        return simulate.whole_s(job, costs(), found)

    limit = share * seconds(1)
    answer = fewest(job, limit, 0.001)
    assert answer["answer"]
    assert answer["job_s"] <= limit
    assert seconds(answer["pairs"] - 1) > limit


def test_where_no_number_suffices_the_fastest_is_told():
    job = Job(100_000, iterations=2)
    best = fewest(job, 1e-3, 0.003)
    assert not best["answer"]
    setting = Setting(None, None, 0.003)
    one_less, one_more = (
        simulate._point(job, costs(), best["pairs"] + step, setting, Assumed())["job_s"]
        for step in (-1, 1)
    )
    assert best["job_s"] <= min(one_less, one_more)
    assert fewest(job, best["job_s"], 0.003)["answer"], "what is possible is not denied"


def test_waits_come_back_with_every_chunk():
    portions = calibration.portions(Job(10**6))
    assert portions.chunk_rows == 1 << 14
    link = Link("far", gbit_s=1e9, one_way_ms=100, usd_per_gb=0)
    step = StepCost("SMIN_k", False, Line(), Line(), Line(19.0), Line(17.0))
    for rows, chunks in ((1 << 14, 1), ((4 << 14) + 1, 5)):
        made = costs(steps=(step,), portions=portions)
        found = cost_model.predict(made, [rows], Setting(None, link))
        assert found.online_s == pytest.approx(chunks * 17 * 0.1)


def test_portions_are_those_of_the_suite():
    wide = calibration.portions(Job(10**6, k=64))
    assert wide.chunk_rows < 1 << 14, "fewer records at a time where there are many clusters"
    narrow = calibration.portions(Job(10**6))
    assert narrow.ahead("leaves", 10_000) == 1
    assert 0 < narrow.ahead("leaves", 10**6) < 1
    assert narrow.ahead("products", 10**6) == 1
    assert narrow.ahead("products", 10**7) == 0
    assert calibration.portions(Job(100, suite="paillier")) == Portions()


def test_sums_of_a_large_shard_take_half_the_bytes():
    step = StepCost("sums", False, Line(), Line(0.0, 8.0), Line())
    assert [step.sent_at(rows) for rows in (100, sums.LARGE)] == [800, 4 * sums.LARGE]


def test_lines_are_never_negative():
    assert Line.through((10, 20), (5.0, 5.0)) == Line(5.0, 0.0)
    assert Line.through((10, 20), (5.0, 3.0)) == Line(3.0, 0.0)
    falling = Line.through((10, 20), (1.0, 9.0))
    assert falling.fixed == 0
    assert falling.at(20) == pytest.approx(9.0)


def test_rows_are_split_evenly():
    assert cost_model.split(10, 4) == [3, 3, 2, 2]


def test_links_can_be_changed_and_wrong_ones_are_refused():
    assert network_presets.link("wan") == network_presets.LINKS["wan"]
    assert network_presets.link("wan", one_way_ms=0, gbit_s=2).gbit_s == 2
    for wrong in ({"gbit_s": 0.0}, {"one_way_ms": -1.0}, {"total_gbit_s": 0.0}):
        with pytest.raises(InputError):
            network_presets.link("lan", **wrong)
    with pytest.raises(InputError, match="no link"):
        network_presets.link("moon")


RUNS = Runs((40, 160), 80, 1)
JOB = Job(300, 2, 2, iterations=5, key_bits=512)
LINKS = tuple(network_presets.LINKS.values())


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A real calibration, small, kept on disk as the command keeps it."""
    file = tmp_path_factory.mktemp("simulate") / "points.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "FAR", replace(calibration.FAR, one_way_ms=20))
        yield predicted(file, 1.0), file


def predicted(file, within_s, pairs=(1, 4, 64), links=LINKS):
    points = Points(file)
    return simulate.simulate(
        JOB, pairs, links, Assumed(), within_s=within_s, runs=RUNS, points=points
    )


def test_a_run_gives_calibration_checks_and_predictions(calibrated, tmp_path):
    result, _ = calibrated
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


def test_measured_points_are_not_measured_again(calibrated, monkeypatch):
    result, file = calibrated
    monkeypatch.setattr(calibration.Run, "over", None)
    assert predicted(file, 1.0) == result


def test_the_answer_names_its_pairs(calibrated):
    result, file = calibrated
    limit = max(x["job_s"] for x in result["points"])
    again = predicted(file, limit, (), [network_presets.LINKS["lan"]])
    (answer,) = again["points"]
    assert answer["answer"]
    assert answer["job_s"] <= limit
    assert f"{answer['pairs']} pair(s)" in again["notes"][0]


@pytest.mark.parametrize("m", [100, 160, 80, 40])
def test_no_run_both_calibrates_and_checks(m, monkeypatch):
    seen = []
    monkeypatch.setattr(calibration, "measure", lambda _, tasks, __: seen.extend(tasks) or [])
    calibration.measure_runs(Job(m, 2, 2), RUNS, Points())
    assert len({str(sorted(task.key.items(), key=str)) for task in seen}) == 6
    rows = [task.key["rows"] for task in seen]
    assert rows[0] == rows[2]
    assert rows[3] == rows[4] == rows[5]
    assert len(set(rows)) == 3
    assert max(rows) <= m


def test_more_clusters_than_rows_of_a_run(monkeypatch):
    seen = []
    monkeypatch.setattr(calibration, "measure", lambda _, tasks, __: seen.extend(tasks) or [])
    runs = Runs((6, 18), 24, 1)
    calibration.measure_runs(Job(1000, 2, 8, suite="paillier"), runs, Points())
    assert min(task.key["rows"] for task in seen) == 8
    with pytest.raises(InputError, match="too few"):
        calibration.measure_runs(Job(8, 2, 8), runs, Points())


def test_what_cannot_be_done_in_time_is_said(calibrated):
    _, file = calibrated
    again = predicted(file, 1e-3, (), [network_presets.LINKS["wan"]])
    assert not again["points"][0]["answer"]
    assert "no number of pairs" in again["notes"][0]


def test_too_many_pairs_or_records_are_refused():
    for m, pairs in ((100, (2000,)), (10**10, (1,))):
        with pytest.raises(InputError, match="simulate k to"):
            simulate.simulate(Job(m), pairs, LINKS, Assumed(), points=Points())


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
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InputError, match="is not a time"):
        duration(text)
