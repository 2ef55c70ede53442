"""Squares of rows of small shared numbers against plaintext."""

import numpy as np
import pytest

from ppodc.mpc.shares.share_squares import needs, share_squares
from tests.mpc.pair import opened, share


@pytest.mark.parametrize(("rows", "columns", "bits"), [(1, 1, 1), (7, 3, 10), (64, 2, 20)])
def test_squares_of_rows(pair, rows, columns, bits):
    values = np.random.default_rng(rows).integers(0, 1 << bits, (rows, columns))
    values[0], values[-1] = (1 << bits) - 1, 0
    shares = share(values.reshape(-1).tolist(), 1, (rows, columns))
    wanted = needs(rows, columns, bits)
    pair.run(lambda session: session.supplies.reserve(wanted))
    before = pair.sessions[0].supplies.available()
    found = pair.run(lambda session, own: share_squares(session, own, bits), shares)
    assert opened(found) == (values**2).sum(axis=1).tolist()
    assert before - pair.sessions[0].supplies.available() == wanted
