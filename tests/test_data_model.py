"""The page of the data model lists every format's version as the code has it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTANT = re.compile(r"^(_?VERSION|PROTOCOL|SCHEMA) = (\d+)", re.MULTILINE)
ROW = re.compile(r"^\|[^|]+\| (\d+) \| `(\w+)` in `([\w/.]+)` \|", re.MULTILINE)


def test_every_version_is_on_the_page():
    in_code = {
        (str(file.relative_to(ROOT)), name, version)
        for folder in ("ppodc", "client", "master", "cloud1", "cloud2")
        for file in (ROOT / folder).rglob("*.py")
        for name, version in CONSTANT.findall(file.read_text())
    }
    page = (ROOT / "docs" / "data_model.md").read_text()
    on_page = {(file, name, version) for version, name, file in ROW.findall(page)}
    assert on_page == in_code
    assert len(in_code) >= 9


def test_every_table_of_the_store_is_on_the_page():
    page = (ROOT / "docs" / "data_model.md").read_text()
    folder = ROOT / "ppodc" / "service" / "store"
    tables = {
        table
        for file in folder.glob("*.py")
        for table in re.findall(r"CREATE TABLE (\w+)", file.read_text())
    }
    assert {"dataset", "upload", "ledger", "result_half"} <= tables
    assert {table for table in tables if f"`{table}`" not in page} == {"format"}
