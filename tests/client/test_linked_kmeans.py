"""People of two clinics, linked by name and date within years of birth, counted once, clustered."""

import numpy as np
import pandas as pd
import pytest

from client import RecordLinkage, SecureKMeans
from client.estimators.kmeans_job import spec_of
from ppodc import rules
from ppodc.kmeans.reference import kmeans
from ppodc.records.encode import encode
from ppodc.records.schema import Column, Schema

RULE = rules.fields(
    [
        rules.edit("surname", max=1, weight=1),
        rules.edit("given_name", max=1, weight=1),
        rules.exact("birth_date", weight=2),
        rules.numeric("height", max=2, weight=1),
    ],
    threshold=3,
)
TEXTS = {"surname": 8, "given_name": 6, "birth_date": ("digits", 8)}
BOUNDS = {"height": (100, 220), "pressure": (60, 200)}
CENTRES = [[150, 80], [190, 160]]


def link(**change) -> RecordLinkage:
    years = {"birth_year": (1990, 1992)}
    by_year = rules.by_key("birth_year", epsilon=4, delta=1e-2)
    given = {"rule": RULE, "bounds": years, "texts": TEXTS, "blocks": by_year, **change}
    return RecordLinkage(**given)


def model(threads, **change) -> SecureKMeans:
    usual = {"init": np.array(CENTRES), "bounds": BOUNDS, "min_size": 1, "dedup": link()}
    return SecureKMeans(2, platform=threads, **{**usual, **change})


def clinics() -> list[pd.DataFrame]:
    """Six people and five, of whom two are the same with a slip, and one looks like another."""
    columns = ["birth_year", "surname", "given_name", "birth_date", "height", "pressure"]
    first = [
        (1990, "miller", "anna", "19900102", 150, 80),
        (1991, "smith", "bob", "19911105", 190, 160),
        (1992, "jones", "carl", "19920704", 152, 90),
        (1990, "novak", "dora", None, 188, 150),
        (1991, "kim", None, "19910101", 149, 85),
        (1992, "lopez", "eva", "19921224", 195, 170),
    ]
    second = [
        (1990, "muller", "anna", "19900102", 151, 100),
        (1991, "smith", "bob", "19911105", 160, 120),
        (1991, "jones", "carl", "19920704", 152, 90),  # another year: never compared
        (1990, "novak", "dora", None, 188, 150),
        (1992, "berg", "finn", "19920303", 180, 140),
    ]
    return [pd.DataFrame(rows, columns=columns) for rows in (first, second)]


def kept(tables: list[pd.DataFrame]) -> np.ndarray:
    """Which rows count, in the clear."""
    named = [part.column for part in RULE.fields]
    first, second = (table.astype(object).where(table.notna(), None) for table in tables)

    def known(b) -> bool:
        return any(
            a["birth_year"] == b["birth_year"] and RULE.matches(a[named], b[named])
            for _, a in first.iterrows()
        )

    return np.array([True] * len(first) + [not known(b) for _, b in second.iterrows()])


def test_each_person_counts_once(threads):
    tables = clinics()
    fitted = model(threads).fit(tables)
    keep, schema = kept(tables), fitted.spec_.schema.used_to("cluster")
    assert keep.sum() == 8
    records = np.concatenate([encode(table[list(BOUNDS)], schema) for table in tables])
    centres = encode(np.array(CENTRES, float), schema)
    plain = kmeans(records, 2, beta=0, max_iter=100, seed=0, centres=centres, keep=keep)
    assert fitted.result_.sums_.tolist() == plain.sums.tolist()
    assert fitted.sizes_.tolist() == plain.sizes.tolist()
    assert (fitted.n_iter_, fitted.converged_) == (plain.n_iter, plain.converged)
    assert fitted.labels_.tolist() == plain.labels.tolist()  # rows as in the tables, no dummies
    assert list(fitted.feature_names_in_) == list(BOUNDS)
    assert fitted.predict(tables[1]).tolist() == fitted.owner_labels_[1].tolist()
    assert fitted.predict(tables[1][list(BOUNDS)]).shape == (5,)


def test_the_estimator_of_a_spec_asks_for_that_spec(threads):
    schema = Schema(tuple(Column(name, *pair) for name, pair in BOUNDS.items()))
    spec = spec_of(model(threads, random_state=3), schema)
    uses = {column.name: column.use for column in spec.schema.columns}
    assert uses == {"height": "both", "pressure": "cluster", "birth_year": "link"}
    again = SecureKMeans.from_spec(spec)
    assert spec_of(again, schema) == spec
    trees = RecordLinkage(theta="1/9", blocks=rules.adtree(epsilon=1, delta=1e-3))
    spec = spec_of(model(threads, dedup=trees, random_state=3), schema)
    assert spec_of(SecureKMeans.from_spec(spec), schema) == spec


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bounds": (0, 300)}, "must name the columns to cluster"),
        ({"dedup": link(bounds={"height": (0, 9), "birth_year": (1990, 1992)})}, "other bounds"),
        ({"dedup": link(bounds=None)}, "'birth_year', which is no column"),
        ({"dedup": link(texts=None)}, "no column of the schema"),
        ({"epsilon": 1.0, "init": "k-means++", "min_size": 5}, "dedup does not go with epsilon"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(threads, change, words):
    with pytest.raises(ValueError, match=words):
        model(threads, **change).fit(clinics())


def test_tables_are_refused_as_a_whole(threads):
    first, second = clinics()
    with pytest.raises(ValueError, match="row 3, column 'surname': 11 characters"):
        model(threads).fit([first, second.replace({"novak": "novakovskij"})])
    with pytest.raises(ValueError, match="owner 2 has no column 'surname'"):
        model(threads).fit([first, second.drop(columns="surname")])
    with pytest.raises(ValueError, match="NaN"):
        model(threads).fit([first, second.replace({"pressure": {140: None}})])
