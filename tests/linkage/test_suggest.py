"""Suggested weights: from labels or without them, they find people again."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ppodc import rules
from ppodc.cli import app
from ppodc.errors import InputError
from ppodc.linkage.frequency_file import frequencies_of
from ppodc.linkage.job import Job, job_of
from ppodc.linkage.owner import owner_side
from ppodc.linkage.rules import FrequencyClasses
from ppodc.linkage.suggest import suggest
from ppodc.records.schema import Schema, TextColumn
from ppodc.spec import Spec

TEXTS = (
    TextColumn("given", "words", 8),
    TextColumn("surname", "words", 8),
    TextColumn("born", "digits", 8),
    TextColumn("town", "words", 8),
)
RULE = rules.fields(
    [
        rules.edit("given", max=1),
        rules.edit("surname", max=1),
        rules.date("born"),
        rules.exact("town"),
    ],
    threshold=2,
)
SPEC = Spec("people", Schema((), texts=TEXTS), Job(RULE))


def people(count=300, twice=120, seed=1):
    """A table in which some people stand twice, with typos and gaps."""
    random = np.random.default_rng(seed)
    letters = list("abcdefgh")

    def word():
        return "".join(random.choice(letters, 6))

    names, towns = [word() for _ in range(40)], [word() for _ in range(8)]

    def person(number):
        born = f"19{random.integers(20, 99)}{random.integers(1, 13):02}{random.integers(1, 29):02}"
        return [
            f"p{number}",
            random.choice(names),
            random.choice(names),
            born,
            random.choice(towns),
        ]

    def copied(row):
        new = list(row)
        if random.random() < 0.5:
            place = random.integers(1, 3)
            new[place] = new[place][:2] + random.choice(letters) + new[place][3:]
        if random.random() < 0.2:
            new[random.integers(1, 5)] = None
        return new

    rows = [person(number) for number in range(count)]
    rows += [copied(row) for row in rows[:twice]]
    return pd.DataFrame(rows, columns=["who", "given", "surname", "born", "town"])


def figures(spec, frame):
    """Precision and recall of a rule over all pairs of a table."""
    rule = job_of(spec).rule
    values = owner_side(spec).encode(frame.drop(columns="who"))
    records, who = rule.decode(values, spec.schema), frame["who"].tolist()
    pairs = list(combinations(range(len(records)), 2))
    found = {(i, j) for i, j in pairs if rule.matches(records[i], records[j])}
    true = {(i, j) for i, j in pairs if who[i] == who[j]}
    return len(found & true) / len(found), len(found & true) / len(true)


@pytest.mark.parametrize("same", ["who", ""])
def test_suggested_weights_find_people_again(same):
    found = suggest(SPEC, people(), same=same)
    assert found.labelled == bool(same)
    assert found.taught_by == pytest.approx(120, rel=0.2)
    precision, recall = figures(found.spec, people(seed=2))
    assert precision > 0.95
    assert recall > 0.95
    assert (found.precision, found.recall) == pytest.approx((precision, recall), abs=0.05)
    given, surname, born, town = found.rule.fields
    assert given.weights[0] >= given.weights[1] > 0
    assert born.year > 0
    assert town.weights[0] < surname.weights[0]  # many people live in the same town
    assert Spec.loads(found.spec.to_toml()).job == found.spec.job


def test_grams_get_a_weight_for_each_limit():
    parts = [rules.grams("surname", [1, 0.6], [1, 1]), rules.exact("town")]
    rule = rules.fields(parts, threshold=1)
    spec = replace(SPEC, job=replace(job_of(SPEC), rule=rule))
    grams, _ = suggest(spec, people(), same="who").rule.fields
    assert grams.least == (1, Fraction(3, 5))
    assert grams.weights[0] >= grams.weights[1] > 1


def test_rare_texts_get_more_points(tmp_path):
    file = tmp_path / "names.csv"
    counts = {"Smith": 5000, "jones": 800, **{f"rare{i}": 1 for i in range(100)}}
    file.write_text("text,count\n" + "".join(f"{k},{v}\n" for k, v in counts.items()))
    column, known = frequencies_of(f"surname={file}")
    assert (column, known) == ("surname", counts)
    found = suggest(SPEC, people(), same="who", frequencies={column: known})
    extra = found.rule.fields[-1]
    assert isinstance(extra, FrequencyClasses)
    smith, rare = (extra.rarity(text) for text in ("smith", "rare7"))
    assert smith == 0 < rare
    assert extra.weights[-1] > extra.weights[0]


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (people(60, 5), {"same": "who"}, "only 5 pairs of rows"),
        (people(60, 0), {}, "too few duplicates"),
        (people(60, 5), {"same": "name"}, "no column 'name'"),
        (people(60, 5), {"overlap": 0}, "overlap"),
        (people(60, 5), {"frequencies": {"surname": {"a": 0}}}, "nor all 0"),
    ],
)
def test_what_cannot_teach_is_refused(table, options, said):
    with pytest.raises(InputError, match=said):
        suggest(SPEC, table, **options)


def test_the_command_prints_and_writes_it(tmp_path):
    spec, data, new = (tmp_path / name for name in ("spec.toml", "people.csv", "new.toml"))
    spec.write_text(SPEC.to_toml())
    people().to_csv(data, index=False)
    command = ["link", "suggest", str(spec), str(data), "--same", "who", "--to", str(new)]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert "expected precision" in told.output
    assert job_of(Spec.load(new)).rule.threshold > 2
