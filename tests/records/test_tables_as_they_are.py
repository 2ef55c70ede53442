"""Tables as people have them: any order, further columns, semicolons, other libraries."""

import sys

import numpy as np
import pandas as pd
import pyarrow
import pytest

from ppodc.errors import InputError
from ppodc.records.encode import encode, fitting
from ppodc.records.read_table import Only
from ppodc.records.schema import Column, Schema

SCHEMA = Schema((Column("age", 0, 100), Column("chol", 0, 10)), 100)
ROWS = [[30, 45], [71, 50]]
WORDS = Schema((Column("age", 0, 100), Column.of_words("eye", ["blue", "brown"])), 100)


def written(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "chol,age\n4.5,30\n5,71\n",
        "age;chol\n30;4,5\n71;5\n",
        "chol\tage\n4,5\t30\n5.0\t71\n",
    ],
)
def test_a_csv_by_names_with_any_separator(tmp_path, text):
    assert encode(written(tmp_path, text), SCHEMA).tolist() == ROWS


def test_a_csv_without_names_and_with_decimal_commas(tmp_path):
    path = written(tmp_path, "30,0;4,5\n71,0;5,0\n")
    assert encode(path, SCHEMA, header=False).tolist() == ROWS


def test_further_columns_are_left_out_where_asked(tmp_path):
    path = written(tmp_path, "id,chol,age,note\nA1,4.5,30,\nA2,5,71,x\n")
    with pytest.raises(InputError, match="unknown columns 'id', 'note', which --only"):
        encode(path, SCHEMA)
    assert encode(Only(path), SCHEMA).tolist() == ROWS
    bad = written(tmp_path, "id,chol,age\nA1,4.5,30\nA2,x,71\n")
    with pytest.raises(InputError, match="line 3, column 'chol': not a number"):
        encode(Only(bad), SCHEMA)


def test_words_follow_their_column(tmp_path):
    frame = pd.DataFrame({"eye": ["brown", "blue"], "age": [30, 71]})
    path = written(tmp_path, frame.to_csv(index=False))
    for table in (frame, path, Only(frame.assign(id="A"))):
        assert fitting(table, WORDS).values.tolist() == [[30, 1], [71, 0]]


def test_tables_of_arrow_and_of_whatever_has_its_stream():
    table = pyarrow.table({"chol": [4.5, 5.0], "age": [30, 71]})

    class Other:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    for given in (table, Other(), table.to_batches()[0]):
        assert encode(given, SCHEMA).tolist() == ROWS
    assert np.array_equal(encode(table.to_pandas(), SCHEMA), ROWS)


def test_rows_that_lack_a_value_are_left_out_and_counted(tmp_path):
    path = written(tmp_path, "who,age,chol\nA1,30,4.5\nA2,,5\nA3,71,5\nA4,12,\n")
    with pytest.raises(InputError, match=r"line 3, column 'age': missing.*: --leave-out"):
        encode(Only(path), SCHEMA)
    asked = Only(path, further=False, id_column="who", leave_out=True)
    assert encode(asked, SCHEMA).tolist() == ROWS
    assert (asked.home.ids, asked.home.rows, asked.home.left_out) == (["A1", "A3"], [0, 2], 2)
    wrong = written(tmp_path, "age,chol\n,1\n30,x\n")
    with pytest.raises(InputError, match="line 3, column 'chol': not a number"):
        encode(Only(wrong, leave_out=True), SCHEMA)
    empty = written(tmp_path, "age,chol\n,1\n")
    with pytest.raises(InputError, match="none is left"):
        encode(Only(empty, leave_out=True), SCHEMA)
    with pytest.raises(InputError, match="no column 'name', which is to name rows"):
        encode(Only(path, id_column="name"), SCHEMA)


def test_a_sheet_of_excel(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["chol", "who", "age"], [4.5, "A1", 30], [5, "A2", 71], [None, None, None]):
        book.active.append(row)
    path = tmp_path / "people.xlsx"
    book.save(path)
    asked = Only(path, id_column="who")
    assert encode(asked, SCHEMA).tolist() == ROWS
    assert asked.home.ids == ["A1", "A2"]
    book.active["A3"] = "x"
    book.save(path)
    with pytest.raises(InputError, match="row 3, column 'chol': not a number"):
        encode(Only(path), SCHEMA)
    path.write_bytes(b"PK nothing of the kind")
    with pytest.raises(InputError, match=r"not a readable \.xlsx"):
        encode(path, SCHEMA)


def test_a_missing_reader_of_sheets_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    path = tmp_path / "people.xlsx"
    path.write_bytes(b"")
    with pytest.raises(ImportError, match=r'openpyxl is not installed.*"ppodc\[excel\]"'):
        encode(path, SCHEMA)
