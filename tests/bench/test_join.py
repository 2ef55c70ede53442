"""Joining between two processes: values and bits are exact, and a wrong one would be seen."""

from dataclasses import replace

from ppodc.bench.linkage.join import make, run_case, whole


def test_a_join_is_exact_and_a_wrong_value_is_seen():
    case = make(30, 3, "1:1")
    wrong = replace(case, values=case.values + (case.keep[:, None] * [[0, 0, 1, 0, 0]]))
    costs = run_case(wrong, lambda _: None)
    assert not costs["exact"]
    costs = run_case(case, lambda _: None)
    assert costs["exact"]
    assert costs["joined"] > 0
    assert costs["join_bytes"] > 0


def test_the_whole_job_gives_what_scikit_learn_gives():
    case = make(40, 2, "m:1")
    assert whole(case, "m:1")["whole_same"]
    other = case.tables[1].assign(i0=case.tables[1]["i0"] + 1)
    assert not whole(replace(case, tables=[case.tables[0], other]), "m:1")["whole_same"]
