"""Data sets that are not in the repository, and the mark of tests that read them.

They are looked for in `../shared/data` beside the checkout, or in the folder that PPODC_DATA names.
Where a file is missing its tests are skipped, and pytest's summary says which file they wanted.
"""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("PPODC_DATA", Path(__file__).parents[2] / "shared" / "data"))
KEGG = FOLDER / "keggundirected" / "data.csv.gz"
needs_kegg = pytest.mark.outside_data(KEGG)


def skip_without_data(item: pytest.Item) -> None:
    """Skip a test whose data are not on this machine."""
    for mark in item.iter_markers("outside_data"):
        for file in mark.args:
            if not file.exists():
                pytest.skip(f"{file.relative_to(FOLDER)} is not in ../shared/data nor PPODC_DATA")
