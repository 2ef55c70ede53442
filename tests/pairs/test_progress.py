"""Time left is told only on a basis, and falls as work is done."""

from ppodc.pairs.progress import Clock


def test_no_estimate_without_a_basis():
    clock = Clock(rows=100, max_iter=10)
    clock.begin(1)
    assert clock.left(1, 0) == (None, None)


def test_the_first_iteration_estimates_from_its_rows():
    clock = Clock(rows=100, max_iter=10)
    clock.begin(1)
    this, at_most = clock.left(1, 50)
    assert this is not None
    assert at_most is not None
    assert 0 <= this < at_most


def test_the_last_iteration_leaves_no_more_than_itself():
    clock = Clock(rows=100, max_iter=3)
    clock.begin(1)
    clock.end_iteration()
    clock.begin(2)
    this, at_most = clock.left(3, 10)
    assert this == at_most
