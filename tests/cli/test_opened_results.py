"""Every kind's result can be shown: texts, counts, numbers, and what has no number."""

import numpy as np
import pytest

from ppodc.cli.opened_results import show_result
from ppodc.kmeans.result import Result
from ppodc.linkage.result import LinkCount, LinkResult
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from ppodc.totals.job import Job
from ppodc.totals.result import totals

SCHEMA = Schema((Column("age", 0, 10), Column("weight", 0, 10)), 10)
CENTRES = np.array([[1 / 3, 2.0], [np.nan, np.nan]])
TOTALS = totals(Spec("d", SCHEMA, Job(variance=True)), 2, [3, 4], [5, 8], [[5, 6], [6, 8]])
KMEANS = Result(CENTRES, np.array([3, 0]), np.array([[1, 6], [0, 0]]), 4, True, None, SCHEMA)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (KMEANS, ["age", "0.333333", "-", "iterations: 4"]),
        (LinkResult([0, 1, 1], [(), (("bob", 0, 2),), (("bob", 0, 5),)]), ["none", "own rows: 3"]),
        (LinkCount(17), ["17"]),
        (TOTALS, ["variance", "correlation\tage\tweight", "weight\t-\t-", "records: 2"]),
    ],
)
def test_results_are_shown(result, words, capsys):
    show_result(result)
    shown = capsys.readouterr().out
    assert [word for word in words if word not in shown] == []
