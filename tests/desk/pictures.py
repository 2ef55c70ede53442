"""Pictures of the desk for the documentation: `make pictures` takes them from the browser's tests.

`python -m tests.desk.pictures SHOTS FOLDER` writes those that pages show, with few colours.
"""

import sys
from pathlib import Path

from PIL import Image

SHOWN = (
    "owner-agree",
    "owner-table",
    "owner-result-kmeans",
    "owner-ledger",
    "operator-new",
    "cloud1-job-watched",
)
_COLOURS = 255
_HEIGHT = 1600  # of long lists the top is enough


def _fewer(picture: Image.Image) -> Image.Image:
    """With its most frequent colours alone, each as it is."""
    found = sorted(picture.getcolors(1 << 24) or [], reverse=True)[:_COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in found for part in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


def main(shots: Path, folder: Path) -> None:
    """Take the wide, light picture of each screen."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHOWN:
        with Image.open(shots / f"{name}-1280-light.png") as picture:
            top = picture.crop((0, 0, picture.width, min(picture.height, _HEIGHT)))
            _fewer(top.convert("RGB")).save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
