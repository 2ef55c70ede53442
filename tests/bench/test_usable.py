"""Whether results that say they are usable are: a document from a small set."""

import numpy as np

from ppodc.bench.local_dp import usable


def test_a_small_set_gives_a_document(monkeypatch):
    random = np.random.default_rng(1)
    records = np.concatenate([random.normal(at, 0.02, (400, 2)) for at in (0.2, 0.8)]).clip(0, 1)
    monkeypatch.setattr(usable, "SETS", {"two": (lambda folder: records, 2)})
    result = usable.run(sets=("two",), epsilons=(4.0,), runs=2)
    (point,) = result["points"]
    assert (point["rows"], point["k"]) == (800, 2)
    assert min(point["losses"]) > 0.9
    assert len(result["tables"][0]["rows"]) == 1
    nothing = [{**point, "usable": [False] * 2, "held": 0, "intervals": 0}]
    ((*_, worst, cover),) = usable._tables({"points": nothing})[0]["rows"]
    assert (worst, cover) == ("-", "-")
    assert result["notes"][0].startswith(f"{sum(point['usable'])} of 2 runs say usable")
