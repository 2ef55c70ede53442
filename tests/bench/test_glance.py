"""The report's first table says what its sections found, and nothing else."""

import json

from ppodc.bench import glance, kegg

ITERATION = {"suite": "shares", "m": 10_000, "l": 10, "k": 4, "pairs": 1, "total_s": 2.022,
             "exact": True}  # fmt: skip


def found(folder, **documents):
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    return glance.lines(folder, list(documents))


def test_times_faster_than_published(tmp_path):
    (line,) = found(tmp_path, iteration=ITERATION)
    assert line[1:4] == ("337 min, 8 pairs", "2.02 s", "10,000")
    assert line[-1] == "iteration"


def test_another_size_is_not_compared_with_the_published_one(tmp_path):
    assert found(tmp_path, iteration={**ITERATION, "m": 9_999}) == []


def test_a_wrong_result_is_said(tmp_path):
    (line,) = found(tmp_path, iteration={**ITERATION, "exact": False})
    assert "NOT EXACT" in line[4]


def test_modes_compare_the_published_size_only(tmp_path):
    points = [
        {"m": m, "mode": mode, "iteration_s": 2676 * 6.0}
        for m in (2_000, 10_000)
        for mode in ("online", "pipelined")
    ]
    parameters = {"l": 10, "k": 4, "key_bits": 1024, "records": 4}
    (line,) = found(tmp_path, modes={"parameters": parameters, "points": points})
    assert line[1:4] == ("2,676 min, 1 pair", "4.46 h", "10")
    assert "estimated" in line[4]


def test_the_worst_check_of_a_simulation(tmp_path):
    errors = [(0.9, True), (0.02, False), (-0.11, False)]
    checks = [
        {"pairs": 1, "link": "wan" if e < 0 else None, "error": e, "used_to_calibrate": used}
        for e, used in errors
    ]
    (line,) = found(tmp_path, simulate={"parameters": {"checks": checks}})
    assert line[2] == "11.0% off at most"
    assert line[4] == "pairs: 1, 1 (wan)"


def test_stored_kegg_jobs_are_counted(tmp_path):
    jobs, largest = found(tmp_path, kegg=kegg.stored())
    count = sum(p["suite"] == "shares" for p in kegg.stored()["points"])
    assert jobs[2] == f"{count} of {count} exact"
    assert "63,608 records" in largest[0]


def test_sections_that_were_not_chosen_are_left_out(tmp_path):
    found(tmp_path, iteration=ITERATION)
    assert glance.lines(tmp_path, ["modes"]) == []
