"""Outlines of uploads in a cloud's store: the cells that an owner told, beside the upload."""

import sqlite3

import numpy as np

from ppodc.service.sealed_uploads import Outline

SCHEMA = """
CREATE TABLE outline (
    upload_id TEXT PRIMARY KEY REFERENCES upload (upload_id) ON DELETE CASCADE,
    columns INTEGER NOT NULL,
    cells BLOB NOT NULL
) STRICT
"""


def keep(sql: sqlite3.Connection, upload_id: str, outline: Outline) -> None:
    """Note the outline of an upload that is just begun."""
    fields = (upload_id, outline.shape[1], np.ascontiguousarray(outline, "<u4").tobytes())
    sql.execute("INSERT INTO outline VALUES (?, ?, ?)", fields)


def cells(sql: sqlite3.Connection, upload_id: str) -> Outline:
    """The outline of an upload; none is left of one whose data are gone."""
    row = sql.execute("SELECT * FROM outline WHERE upload_id = ?", (upload_id,)).fetchone()
    if row is None:
        return np.empty((0, 1), np.uint32)
    cells = np.frombuffer(row["cells"], "<u4").astype(np.uint32)
    return cells.reshape(-1, row["columns"])
