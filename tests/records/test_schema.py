"""Encoding against exact fractions, every kind of table, and every way a table can be wrong."""

import gzip
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ppodc.errors import InputError
from ppodc.records.encode import encode
from ppodc.records.grid import decode_centres
from ppodc.records.schema import Column, Schema
from ppodc.toml_document import parse_toml

SCHEMA = Schema((Column("age", 0, 100), Column("height", -1.0, 1.0)), ub=1000)
GOOD = "age,height\n50,0.5\n0,-1\n100,1\n"
ENCODED = [[500, 750], [0, 0], [1000, 1000]]


def write(folder, text, name="data.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def fault(data, schema=SCHEMA, **options):
    with pytest.raises(InputError) as caught:
        encode(data, schema, **options)
    return str(caught.value)


doubles = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12)


@given(doubles, doubles, st.lists(st.floats(0, 1), min_size=1), st.integers(1, 1 << 20))
@settings(deadline=None)
def test_rounding_is_that_of_the_exact_quotient(a, b, parts, ub):
    low, high = min(a, b), max(a, b)
    assume(low < high)
    values = [min(max(low + part * (high - low), low), high) for part in parts]
    # and values next to the middle between two integers
    middle = float(Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(1, 2 * ub))
    values += [min(max(np.nextafter(middle, end), low), high) for end in (low, high)]
    exact = [
        round((Fraction(x) - Fraction(low)) / (Fraction(high) - Fraction(low)) * ub)
        for x in map(float, values)
    ]
    encoded = encode(np.array(values)[:, None], Schema((Column("x", low, high),), ub))
    assert encoded[:, 0].tolist() == exact


def test_halves_go_to_even():
    schema = Schema((Column("x", 0, 2000),), ub=1000)
    assert encode(np.array([[1], [3], [5], [7]]), schema)[:, 0].tolist() == [0, 2, 2, 4]


def test_every_kind_of_table_gives_the_same(tmp_path):
    frame = pd.DataFrame({"age": [50, 0, 100], "height": [0.5, -1, 1]})
    packed = tmp_path / "data.csv.gz"
    packed.write_bytes(gzip.compress(GOOD.encode()))
    frame.to_parquet(tmp_path / "data.parquet")
    objects = frame.astype(object)
    objects.iloc[0, 0] = Decimal(50)
    for data in (
        frame,
        objects,
        frame.convert_dtypes(),
        frame.to_numpy(),
        objects.to_numpy(),
        write(tmp_path, GOOD),
        str(write(tmp_path, GOOD)),
        packed,
        tmp_path / "data.parquet",
    ):
        encoded = encode(data, SCHEMA)
        assert encoded.dtype == np.int64
        assert encoded.tolist() == ENCODED


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.replace(",", ", "),
        GOOD + "\n\n",
        GOOD.rstrip("\n"),
        GOOD.replace("age,height", '"age", "height"'),
        '"age","height"\n"50","0.5"\n0,-1e0\n+100,1.00\n',
    ],
)
def test_harmless_differences_of_csv(tmp_path, text):
    assert encode(write(tmp_path, text), SCHEMA).tolist() == ENCODED


def test_csv_without_header(tmp_path):
    path = write(tmp_path, GOOD.split("\n", 1)[1])
    assert encode(path, SCHEMA, header=False).tolist() == ENCODED
    assert "no header" in fault(path)


def test_bad_values_are_named_by_line_and_column(tmp_path):
    text = "age,height\n50,0\n,0\nold,0\n1_0,0\ninf,0\n101,-1.5\n50,0\nnan,0\n1,2\n"
    message = fault(write(tmp_path, text))
    assert "8 values" in message
    assert "line 3, column 'age': missing" in message
    assert "line 4, column 'age': not a number" in message
    assert "line 5, column 'age': not a number" in message
    assert "line 6, column 'age': infinite" in message
    assert "line 7, column 'age': above 100.0" in message
    assert "and 3 more" in message
    assert "old" not in message  # values stay out of messages


def test_lines_are_counted_as_an_editor_does(tmp_path):
    message = fault(write(tmp_path, 'age,height\n50,"\n0"\n1,5\n'))
    assert "line 4, column 'height': above 1.0" in message


def test_both_bounds_belong_to_the_range():
    edge = np.array([[0.0, -1.0], [100.0, 1.0]])
    assert encode(edge, SCHEMA).tolist() == [[0, 0], [1000, 1000]]
    assert "below -1.0" in fault(np.array([[0, np.nextafter(-1, -2)]]))
    assert "above 100.0" in fault(np.array([[np.nextafter(100, 200), 0]]))


def test_rows_of_frames_are_named_by_their_label():
    frame = pd.DataFrame({"age": [1, 2], "height": [0, None]}, index=[70, 71])
    assert "row 71, column 'height': missing" in fault(frame)
    people = frame.set_axis(["Ann", "Bob"])
    assert "row 1 (counted from 0), column 'height'" in fault(people)
    assert "Bob" not in fault(people)


@pytest.mark.parametrize(
    "entry", ["5", True, 1j, pd.Timestamp(0), [1], 10**400, Decimal("sNaN")], ids=repr
)
def test_objects_that_are_no_numbers(entry):
    frame = pd.DataFrame({"age": pd.Series([1, entry], dtype=object), "height": [0.0, 0.0]})
    assert "row 1, column 'age': not a number" in fault(frame)


@pytest.mark.parametrize("entry", [None, pd.NA, pd.NaT, float("nan"), Decimal("NaN")], ids=repr)
def test_objects_that_are_missing(entry):
    frame = pd.DataFrame({"age": pd.Series([1, entry], dtype=object), "height": [0.0, 0.0]})
    assert "row 1, column 'age': missing" in fault(frame)


def test_missing_values_in_parquet(tmp_path):
    path = tmp_path / "data.parquet"
    pd.DataFrame({"age": pd.array([1, None], "Int64"), "height": [0.0, 0.0]}).to_parquet(path)
    message = fault(path)
    assert str(path) in message
    assert "row 1, column 'age': missing" in message


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("age,weight", "missing columns 'height'; unknown columns 'weight'"),
        ("age,age", "missing columns 'height'; a column name occurs more than once"),
        ("age", "missing columns 'height'"),
        ("age,height,extra", "unknown columns 'extra'"),
        ("Age,height", "leaves out; capitals count: 'Age' is not 'age'"),
        ("age|height", "separated by commas"),
    ],
)
def test_wrong_headers(tmp_path, header, words):
    row = ",".join(["0"] * len(header.split(",")))
    assert words in fault(write(tmp_path, f"{header}\n{row}\n"))


def test_wrong_number_of_columns(tmp_path):
    assert "has 3 columns, not 2" in fault(np.zeros((4, 3)))
    assert "has 3 columns, not 2" in fault(write(tmp_path, "1,2,3\n"), header=False)
    assert "separated by commas" in fault(write(tmp_path, "1|2\n"), header=False)


def test_lines_of_another_length(tmp_path):
    message = fault(write(tmp_path, "age,height\n1,0\n1,0,3\n\n1\n1,0\n"))
    assert "2 fields" in message
    assert "line 3 has 3; line 4 has 0; line 5 has 1" in message
    assert "line 1 has 0" in fault(write(tmp_path, "\n1,0\n"), header=False)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"age,height\n", "holds no records"),
        ("a.csv", b"age,height\n1,\xff\n", "not UTF-8"),
        ("a.csv", b'age,height\n1,"0\n', "not a readable CSV"),
        ("a.csv", b"age,height\n1," + b"1" * 200_000, "not a readable CSV"),
        ("a.csv.gz", b"not packed", "cannot be read"),
        ("a.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:-12], "damaged"),
        ("a.parquet", b"not parquet", "not a readable Parquet"),
        ("a.ods", b"", "must end in"),
    ],
)
def test_unreadable_files(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    message = fault(path)
    assert words in message
    assert str(path) in message


def test_files_that_are_not_there(tmp_path):
    assert "does not exist" in fault(tmp_path / "none.csv")
    assert "is not a file" in fault(tmp_path)
    assert "holds no records" in fault(write(tmp_path, ""), header=False)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros(3), "two dimensions"),
        (np.zeros((0, 2)), "no records"),
        (np.array([["a", "b"]]), "must hold numbers"),
        (np.zeros((1, 2), bool), "must hold numbers"),
        (np.zeros((1, 2), complex), "must hold numbers"),
        (pd.DataFrame({"age": [], "height": []}), "no records"),
        ([[1, 2]], "DataFrame"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tables_of_the_wrong_kind(data, words):
    assert words in fault(data)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1, 1, "less than high"),
        (2, 1, "less than high"),
        (0, float("inf"), "finite"),
        (float("nan"), 1, "finite"),
        (-1e308, 1e308, "too far apart"),
        ("0", 1, "must be a number"),
        (False, True, "must be a number"),
        (0, 10**17, "too large"),
    ],
)
def test_refused_bounds(low, high, words):
    with pytest.raises(InputError, match=words):
        Column("x", low, high)


@pytest.mark.parametrize("name", ["", " ", " x", "x\n", "a\x00b", "x" * 129, None, 5])
def test_refused_names(name):
    with pytest.raises(InputError, match="name"):
        Column(name, 0, 1)


@pytest.mark.parametrize("ub", [0, -1, (1 << 20) + 1, 10.0, True, "1000"])
def test_refused_ub(ub):
    with pytest.raises(InputError, match="ub must be"):
        Schema((Column("x", 0, 1),), ub)


def test_refused_columns():
    with pytest.raises(InputError, match="more than once: 'x'"):
        Schema((Column("x", 0, 1), Column("x", 0, 2)))
    with pytest.raises(InputError, match="1 to 4096"):
        Schema(())


def from_toml(text):
    return Schema.from_dict(parse_toml(text))


def test_schema_from_toml():
    text = 'ub = 7\ncolumns = [{name = "x", low = 0, high = 1.5}]\n'
    wanted = Schema((Column("x", 0.0, 1.5),), 7)
    assert from_toml(text) == wanted
    assert Schema.from_dict(wanted.to_dict()) == wanted
    assert from_toml(text.replace("ub = 7\n", "")).ub == 1000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ub = ", "not valid TOML"),
        ("ub = " + "9" * 5000, "not valid TOML"),
        ("ub = 5", "missing columns"),
        ("columns = 5", "must be a list"),
        ("columns = [5]", "entry 1 must be a table"),
        ('columns = [{name = "x", low = 0}]', "entry 1: missing high"),
        ('columns = [{name = "x", low = 0, high = 1, unit = "m"}]', "unknown key 'unit'"),
        ("columns = []\nlevels = 3", "unknown key 'levels'"),
    ],
)
def test_refused_schema_files(text, words):
    with pytest.raises(InputError, match=words):
        from_toml(text)


def test_centres_in_real_units():
    sums, sizes = np.array([[500, 1500], [0, 1000]]), np.array([3, 1])
    centres = decode_centres(sums, sizes, SCHEMA)
    assert centres.tolist() == [[float(Fraction(50, 3)), 0.0], [0.0, 1.0]]


def test_centres_survive_the_way_there_and_back():
    values = np.array([[17.0, -0.25], [99.0, 1.0]])
    assert np.array_equal(decode_centres(encode(values, SCHEMA), np.ones(2, int), SCHEMA), values)


def test_a_cluster_without_records_has_no_centre():
    centres = decode_centres(np.array([[0, 0], [0, 1000]]), np.array([0, 1]), SCHEMA)
    assert np.isnan(centres[0]).all()
    assert centres[1].tolist() == [0.0, 1.0]


def test_refused_centres():
    with pytest.raises(InputError, match="shape"):
        decode_centres(np.array([[0]]), np.array([1]), SCHEMA)
