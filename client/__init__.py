"""The owner's side: `Owner` uploads records as shares and opens results; estimators in
scikit-learn's manner do all of it behind `fit`.

Its names are those of `ppodc`, where a table says which module has each.
"""

from typing import TYPE_CHECKING, Any

import ppodc

if TYPE_CHECKING:
    from ppodc import *  # noqa: F403

__all__ = list(ppodc.__all__)


if not TYPE_CHECKING:  # a type checker that saw it would let every name pass

    def __getattr__(name: str) -> Any:
        return getattr(ppodc, name)
