"""Checks of every measurement: a document for JSON and a plot with something on it."""

import io
import json
from pathlib import Path
from typing import Any

from matplotlib.image import imread
from rich.console import Console

from ppodc.bench.document import show

FIELDS = {"schema", "bench", "machine", "notes", "tables"}


def check_document(result: dict[str, Any], bench: str) -> str:
    """Check its form; what its tables and notes say, for a closer look."""
    assert result.keys() >= FIELDS
    assert (result["schema"], result["bench"]) == (1, bench)
    assert result["machine"].keys() >= {"processor", "cores", "python", "packages"}
    assert json.loads(json.dumps(result)) == result
    assert result["tables"]
    for table in result["tables"]:
        assert table["rows"]
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}
    into = io.StringIO()
    show(result, Console(file=into, width=400))
    return into.getvalue()


def check_plot(file: Path) -> None:
    image = imread(file)
    height, width = image.shape[:2]
    assert height > 300
    assert width > 500
    # Frame and text are black and grey; lines, markers and bars have colours.
    coloured = image[:, :, :3].max(axis=2) - image[:, :, :3].min(axis=2) > 0.2
    legend = int(0.8 * height)
    assert coloured[:legend].sum() > 200, "nothing is drawn"
