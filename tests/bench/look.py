"""What every measurement must give: a document for JSON and a plot with something on it."""

import json
from pathlib import Path
from typing import Any

from matplotlib.image import imread

FIELDS = {"schema", "bench", "machine", "parameters", "points", "published", "notes"}


def check_document(result: dict[str, Any], bench: str) -> None:
    assert result.keys() >= FIELDS
    assert (result["schema"], result["bench"]) == (1, bench)
    assert result["machine"].keys() >= {"processor", "cores", "python", "packages"}
    assert result["points"]
    assert json.loads(json.dumps(result)) == result


def check_plot(file: Path) -> None:
    image = imread(file)
    height, width = image.shape[:2]
    assert height > 300
    assert width > 500
    assert image.min() < 0.2, "nothing is drawn"
    assert image.max() == 1.0
