"""Specs: what loads, what is refused and in which words, and what the digest depends on."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppodc.errors import InputError
from ppodc.kmeans.job import SAMPLE, Job, job_of, parse_beta
from ppodc.kmeans.parameters import Parameters
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec

SMALL = """
name = "small"
[schema]
ub = 100
columns = [{name = "x", low = 0, high = 10}, {name = "y", low = -1, high = 1}]
[job]
k = 2
"""


def test_the_sample_loads_and_shows_every_key(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SAMPLE)
    spec = Spec.load(path)
    assert spec.schema.names == ["age", "temperature", "pressure"]
    assert spec.job == Job(3, Fraction(0), 100, "k-means++", 1, True, min_size=5)
    for key in spec.job.to_dict():
        assert f"\n{key} = " in SAMPLE


def test_defaults():
    job = Spec.loads(SMALL).job
    assert job == Job(2, Fraction(0), 100, "random", 0, False, min_size=1)


def test_a_new_job_has_a_threshold_written_out_and_an_old_spec_none():
    """A written spec means what it says; whoever makes one in Python gets the default."""
    assert Job(2).min_size == Spec.loads(SAMPLE).job.min_size == 5
    assert Job(2).to_dict()["min_size"] == 5
    old = Spec.loads(SMALL)
    assert old.job.min_size == 1
    assert b"min_size" not in old.canonical()
    said = Spec.loads(SMALL.replace("k = 2", "k = 2\nmin_size = 1"))
    assert said.digest == old.digest
    assert b'"min_size":9' in Spec.loads(SMALL.replace("k = 2", "k = 2\nmin_size = 9")).canonical()


def test_digest_known_answer():
    """A change here means that datasets made before are no longer recognised."""
    spec = Spec.loads(SMALL)
    assert spec.canonical() == (
        b'{"job":{"beta":"0","init":"random","k":2,"labels":false,"max_iter":100,"seed":0},'
        b'"name":"small","schema":{"columns":[{"high":10.0,"low":0.0,"name":"x"},'
        b'{"high":1.0,"low":-1.0,"name":"y"}],"ub":100},"version":1}'
    )
    assert spec.digest == "6396eca9038410b78a671d64889c770dcac29c4b397b1112174d75fa3cea4d90"


def test_silent_supplies_are_said_and_are_part_of_the_digest():
    spec = Spec.loads(SMALL)
    said = Spec.loads(SMALL.replace("k = 2", 'k = 2\nsupplies = "extension"'))
    silent = Spec.loads(SMALL.replace("k = 2", 'k = 2\nsupplies = "silent"'))
    assert said.digest == spec.digest != silent.digest
    assert any("regular LPN" in line and "deviates" in line for line in silent.describe())
    assert not any("LPN" in line for line in spec.describe())
    with pytest.raises(InputError, match="supplies must be one of extension, silent"):
        Spec.loads(SMALL.replace("k = 2", 'k = 2\nsupplies = "ferret"'))


def test_digest_ignores_layout_but_not_content():
    spec = Spec.loads(SMALL)
    same = SMALL.replace("low = 0", "low = -0.0").replace(
        "k = 2", 'seed = 0\nk = 2 # two\nbeta="0/9"'
    )
    assert Spec.loads(same).digest == spec.digest
    for old, new in [
        ('"small"', '"other"'),
        ("ub = 100", "ub = 101"),
        ("k = 2", "k = 3"),
        ('"x"', '"z"'),
        ("high = 10", "high = 10.000000000000002"),
        ("k = 2", "k = 2\nlabels = true"),
        ("k = 2", "k = 2\nseed = 1"),
        ("k = 2", "k = 2\nmax_iter = 99"),
        ("k = 2", "k = 2\nbeta = 1"),
        ("k = 2", "k = 2\ninit = [[0, 0], [1, 1]]"),
        ("k = 2", "k = 2\nmin_size = 2"),
        ("k = 2", "k = [1, 2]"),
        ("k = 2", 'k = 2\ninit = "k-means++"'),
        ("k = 2", "k = 2\nn_init = 2"),
        ("k = 2", "k = 2\ninertia = true"),
    ]:
        assert Spec.loads(SMALL.replace(old, new)).digest != spec.digest


@st.composite
def specs(draw):
    name = draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True))
    text = st.text(min_size=1, max_size=9).filter(lambda s: s == s.strip() and s.isprintable())
    names = draw(st.lists(text, min_size=1, max_size=4, unique=True))
    low = draw(st.floats(-1e15, 1e15))
    columns = [Column(name, low, low + draw(st.floats(1, 1e15))) for name in names]
    k = draw(st.integers(1, 2))
    ends = tuple(tuple(getattr(c, end) for c in columns) for end in ("low", "high"))
    init = draw(st.sampled_from(["random", "k-means++", ends[:k]]))
    job = Job(
        k,
        draw(st.fractions(0, 10**9, max_denominator=10**9)),
        draw(st.integers(1, 10_000)),
        init,
        draw(st.integers(0, (1 << 63) - 1)),
        draw(st.booleans()),
        min_size=draw(st.integers(1, 1 << 20)),
        n_init=draw(st.integers(1, 100)) if isinstance(init, str) else 1,
        inertia=draw(st.booleans()),
        ks=draw(st.sampled_from([(), (1, 2)])) if isinstance(init, str) and k == 2 else (),
        supplies=draw(st.sampled_from(["extension", "silent"])),
    )
    return Spec(name, Schema(tuple(columns), draw(st.integers(1, 1 << 20))), job)


@given(specs())
@settings(max_examples=50, deadline=None)
def test_every_spec_survives_toml_and_bytes(spec):
    assert Spec.loads(spec.to_toml()) == spec
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()).digest == spec.digest


def test_only_canonical_bytes_are_taken_from_a_peer():
    good = Spec.loads(SMALL).canonical()
    document = json.loads(good)
    for bad, words in [
        (json.dumps(document).encode(), "canonical"),
        (good.replace(b'"version":1', b'"version":2'), "version"),
        (good.replace(b"10.0", b"NaN"), "finite"),
        (good[:-1], "not readable"),
        (b"\xff", "not readable"),
        (b"[" * 100_000, "not readable"),
        (b"9" * 10_000, "not readable"),
        (b"[]", "version"),
        (b"{}", "version"),
    ]:
        with pytest.raises(InputError, match=words):
            Spec.from_bytes(bad)


@pytest.mark.parametrize(
    ("value", "beta"),
    [
        (0, 0),
        (7, 7),
        (0.1, Fraction(1, 10)),
        (1e-7, Fraction(1, 10**7)),
        ("1/3", Fraction(1, 3)),
        (" 2/6 ", Fraction(1, 3)),
        ("0.25", Fraction(1, 4)),
        ("1e3", 1000),
        (1 << 64, 1 << 64),
        (Fraction(5, 7), Fraction(5, 7)),
    ],
)
def test_beta(value, beta):
    assert parse_beta(value) == beta


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -0.5,
        "-1/2",
        "1/0",
        "1/-2",
        "",
        "a",
        "1/2/3",
        "nan",
        "1e999999999",
        "1_0",
        float("nan"),
        float("inf"),
        5e-324,
        (1 << 64) + 1,
        1 << 20_000,
        True,
        None,
        [1],
        "9" * 100,
    ],
    ids=lambda value: repr(value)[:12] if not isinstance(value, int) else "number",
)
def test_refused_beta(value):
    with pytest.raises(InputError, match=r"job\.beta"):
        parse_beta(value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("k = 2", "", "job: missing k"),
        ("k = 2", "k = 0", "job.k must be a whole number from 1 to 64"),
        ("k = 2", "k = 65", "job.k"),
        ("k = 2", "k = 2.0", "job.k"),
        ("k = 2", 'k = "2"', "job.k"),
        ("k = 2", "k = true", "job.k"),
        ("k = 2", "k = 2\nmax_iter = 0", "job.max_iter must be a whole number from 1 to 10000"),
        ("k = 2", "k = 2\nmax_iter = 10001", "job.max_iter"),
        ("k = 2", "k = 2\nseed = -1", "job.seed"),
        ("k = 2", "k = 2\nseed = 9223372036854775808", "job.seed"),
        ("k = 2", "k = 2\nlabels = 1", "job.labels must be true or false"),
        ("k = 2", 'k = 2\nproducts = "ot"', "job.products must be one of auto"),
        ("k = 2", "k = 2\nbeta = -1", "job.beta"),
        ("k = 2", "k = 2\nclusters = 2", "job: unknown key 'clusters'; known are k, beta"),
        ("k = 2", 'k = 2\ninit = "k-means"', 'must be "k-means\\+\\+", "random" or a list of 2'),
        ("k = 2", "k = [2]", "job.k must be a whole number or a list of at least two"),
        ("k = 2", "k = [3, 2]", "different and in ascending order"),
        ("k = 2", "k = [2, 2]", "different and in ascending order"),
        ("k = 2", "k = [0, 2]", "each of job.k must be a whole number from 1 to 64"),
        ("k = 2", "k = [2, 3.0]", "job.k"),
        ("k = 2", "k = [1, 2]\ninit = [[0, 0], [1, 1]]", "one start with one k"),
        ("k = 2", "k = 2\nn_init = 2\ninit = [[0, 0], [1, 1]]", "one start with one k"),
        ("k = 2", "k = 2\nn_init = 0", "job.n_init must be a whole number from 1 to 100"),
        ("k = 2", "k = 2\ninertia = 1", "job.inertia must be true or false"),
        ("k = 2", "k = 2\ninit = [[0, 0]]", "a list of 2 centres"),
        ("k = 2", "k = 2\ninit = [1, 2]", "must be a list of numbers"),
        ("k = 2", 'k = 2\ninit = [["0", 0], [0, 0]]', "must be a number"),
        ("k = 2", "k = 2\ninit = [[0], [0]]", "must have 2 values"),
        ("k = 2", "k = 2\ninit = [[0, 0], [0, 5]]", "job.init: centre 2, column 'y': above 1.0"),
        ("k = 2", "k = 2\ninit = [[nan, 0], [0, 0]]", "finite"),
        ("k = 2", "k = 2\ninit = [[1, 0], [1.0, 0.0]]", "two centres that are equal"),
        ("k = 2", "k = 2\ninit = [[1, 0], [1.0001, 0]]", "equal once they are encoded"),
        ("k = 2", "k = 2\nmin_size = 0", "job.min_size must be a whole number from 1"),
        ("k = 2", "k = 2\nmin_size = 2.0", "job.min_size"),
        ('name = "small"', "", "missing name"),
        ('name = "small"', 'name = "a/b"', "name must be"),
        ('name = "small"', 'name = "../b"', "name must be"),
        ('name = "small"', "name = 5", "name must be"),
        ('name = "small"', 'name = "small"\nowner = "me"', "unknown key 'owner'"),
        ("[job]", "[jobs]", "missing job"),
        ("ub = 100", "ub = 0", "ub must be"),
        ("ub = 100", "ub = ", "not valid TOML.*line 4"),
        ("low = 0", "low = 10", "column 'x': low must be less"),
    ],
)
def test_refused_specs(tmp_path, old, new, words):
    path = tmp_path / "spec.toml"
    path.write_text(SMALL.replace(old, new))
    with pytest.raises(InputError, match=words) as caught:
        Spec.load(path)
    assert str(path) in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        Spec.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        Spec.load(tmp_path / "bad.toml")


def test_parameters():
    spec = Spec.loads(SMALL.replace("k = 2", "k = 2\nbeta = 0.5"))
    assert job_of(spec).parameters(spec.schema, 9) == Parameters(9, 2, 2, 100, Fraction(1, 2))
    with pytest.raises(InputError, match="at least 2 records"):
        job_of(spec).parameters(spec.schema, 1)


def test_initial_centres_are_encoded():
    plain = Spec.loads(SMALL)
    assert job_of(plain).initial_centres(plain.schema) is None
    spec = Spec.loads(SMALL.replace("k = 2", "k = 2\ninit = [[0, 0], [5, 1.0]]"))
    centres = job_of(spec).initial_centres(spec.schema)
    assert centres is not None
    assert np.array_equal(centres, [[0, 50], [50, 100]])
    assert job_of(spec).parameters(spec.schema, 1).m == 1  # public centres need no k records
    with pytest.raises(InputError, match="at least 1 records"):
        job_of(spec).parameters(spec.schema, 0)
