"""The owner's side: `Owner` uploads records as shares and opens results; estimators in
scikit-learn's manner do all of it behind `fit`.

Its names are those of `ppodc`, where a table says which module has each.
"""

from typing import Any

import ppodc

__all__ = list(ppodc.__all__)


def __getattr__(name: str) -> Any:
    return getattr(ppodc, name)
