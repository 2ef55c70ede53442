"""The owner's register of exact releases refuses tables that differ by a few rows."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from client.releases import Releases, _common
from ppodc.cli import app
from ppodc.errors import InputError
from ppodc.kinds import owner_side
from ppodc.spec import Spec
from ppodc.totals.job import Job as TotalsJob
from tests.client.two_gateways import table


@pytest.fixture
def study(platform):
    """A function that opens another dataset for the same owners at both clouds."""

    def opened(name, job=None, schema=None):
        spec = platform.stores[0].datasets.spec("clinic")
        spec = replace(spec, name=name, job=job or replace(spec.job, min_size=5))
        spec = replace(spec, schema=schema or spec.schema)
        for store in platform.stores:
            store.datasets.create(spec)
        return spec

    return opened


def test_a_withdrawn_record_is_not_given_away_by_two_exact_jobs(platform, study):
    march, april, may = (study(name) for name in ("march", "april", "may"))
    rows = table(30)
    with platform.owner("ann") as ann:
        ann.upload("march", rows, spec=march)
        with pytest.raises(InputError, match=r"differ from those in 'march' by 1 of 29.*privacy"):
            ann.upload("april", rows[1:], spec=april)
        assert not ann.uploads("april"), "nothing was sent"
        ann.upload("april", rows, spec=april)
        with pytest.raises(InputError, match=r"by 4 of 26"):
            ann.upload("may", rows[4:], spec=may)
        both = ["march", "april"]
        assert ann.upload("may", rows[4:], spec=may, accept_differencing=both).rows == 26
        listed = {each.dataset: each.rows for each in ann.releases()}
        assert listed == {"march": 30, "april": 30, "may": 26}


def test_names_order_and_kind_do_not_hide_a_withdrawn_record(platform, study):
    march, rows = study("march"), table(30)
    columns = [replace(c, name=f"{c.name} again") for c in reversed(march.schema.columns)]
    april = study("april", TotalsJob(least=3), replace(march.schema, columns=tuple(columns)))
    with platform.owner("ann") as ann:
        ann.upload("march", rows, spec=march)
        with pytest.raises(InputError, match="'march' by 1 of 29"):
            ann.upload("april", rows[1:, ::-1], spec=april)


@pytest.mark.parametrize("inside", ["join", "linkage"])
def test_what_links_records_does_not_hide_a_withdrawn_one(tmp_path, inside):
    """Totals of a table, and k-means that links or joins its records by further columns."""
    people = pd.DataFrame(
        {"stay": np.arange(9) % 5, "height": np.arange(9), "name": list("abcdefghi")}
    )
    numbers = [{"name": name, "low": 0, "high": 30} for name in ("stay", "height")]
    texts, rule = [{"name": "name", "text": "words", "longest": 6}], {"rule": "exact"}
    held = [{**column, "held_by": ["ann"]} for column in numbers]
    cost = {"name": "cost", "low": 0, "high": 9, "held_by": ["bob"]}
    columns = {"join": [*held, cost, *texts], "linkage": [*numbers, *texts]}[inside]
    jobs = [
        ({"kind": "totals", "least": 5}, numbers, {}),
        ({"k": 2, "min_size": 5}, columns, {inside: {**rule, "columns": ["name"]}}),
    ]
    register = Releases(tmp_path, 9)
    for number, (job, listed, more) in enumerate(jobs):
        document = {"name": f"d{number}", "schema": {"ub": 30, "columns": listed}, "job": job}
        spec = Spec.from_dict({**document, **more})
        side, left = owner_side(spec).of("ann"), people[number:]
        values = side.encode(left if number else left[["stay", "height"]])
        with pytest.raises(InputError, match="'d0' by 1 of 8") if number else nullcontext():
            register.begin(spec, values, *side.counted(values), replace=False, accepted=())


def test_many_rows_none_in_common_other_columns_and_noise_pass(platform, study):
    rows = table(30)
    with platform.owner("ann") as ann:
        ann.upload("march", rows, spec=study("march"))
        ann.upload("few", rows[5:], spec=study("few"))
        ann.upload("other", table(2, 9) / 2, spec=study("other"))
        spec = study("totals", TotalsJob(least=3))
        ann.upload("totals", rows[3:5], spec=spec)


def test_a_table_that_was_withdrawn_or_replaced_does_not_count(platform, study):
    march, april = study("march"), study("april")
    rows = table(30)
    with platform.owner("ann") as ann:
        ann.upload("march", rows, spec=march)
        ann.withdraw("march")
        ann.upload("april", rows[1:], spec=april)
        with pytest.raises(InputError, match="'april' by 1"):
            ann.upload("march", rows, spec=march)
        ann.upload("april", table(30, 5), spec=april, replace=True)
        ann.upload("march", rows, spec=march)


def test_tables_of_one_dataset_count_together(platform, study):
    march, april = study("march"), study("april")
    rows = table(30)
    with platform.owner("ann") as ann:
        ann.upload("march", rows, spec=march)
        ann.upload("april", rows[:20], spec=april)
        with pytest.raises(InputError, match="'march' by 1 of 29"):
            ann.upload("april", rows[20:29], spec=april)


def test_a_limit_on_exact_jobs_and_the_command_that_lists_them(platform, study):
    config = platform.deployment.party("ann").config
    text = config.read_text().replace("max_exact_releases = 20", "max_exact_releases = 2")
    config.write_text(text)
    specs = [study(f"s{number}") for number in range(3)]
    with platform.owner("ann") as ann:
        for number in range(2):
            ann.upload(f"s{number}", table(9, number), spec=specs[number])
        with pytest.raises(InputError, match=r"2 exact jobs.*max_exact_releases"):
            ann.upload("s2", table(9, 2), spec=specs[2])
        ann.upload("s1", table(9, 7), spec=specs[1])  # more for one of them
    listed = CliRunner().invoke(app, ["releases", "--config", str(config)]).output
    shown = {tuple(line.split("\t")[:2]) for line in listed.splitlines()[1:]}
    assert shown == {("s0", "9"), ("s1", "18")}


def test_common_rows_count_as_often_as_both_have_them(tmp_path):
    first, second = (np.array(x, np.uint64) for x in ([1, 1, 2, 5], [1, 2, 2, 3, 5]))
    assert _common(first, second) == 3
    assert Releases(tmp_path / "none", 1).listed() == []
