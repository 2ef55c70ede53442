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
    # Frame and text are black and grey; lines, markers and bars have colours.
    coloured = image[:, :, :3].max(axis=2) - image[:, :, :3].min(axis=2) > 0.2
    legend = int(0.8 * height)
    assert coloured[:legend].sum() > 200, "nothing is drawn"
