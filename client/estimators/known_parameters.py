"""Parameters that an estimator does not have, refused with the reason and what there is instead."""

from difflib import get_close_matches
from typing import Any, Self

from client.data_errors import DataError

_INSTEAD = {
    "n_jobs": "worker pairs use several cores: `pairs=` where it is offered, or a platform "
    "(`LocalPlatform(pairs=2)`).",
    "algorithm": "there is one, Lloyd's: a faster one would skip distances by what is in the "
    "records, and both clouds would see it.",
    "copy_x": "tables are never changed.",
    "sample_weight": "every record counts once.",
}


class ParameterError(DataError, TypeError):
    """A parameter that the estimator does not have."""


class KnownParameters:
    """Base of estimators: names an unknown parameter before `__init__` would."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse parameters that are unknown."""
        known: list[str] = cls._get_param_names()  # type: ignore[attr-defined]
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                advice = _INSTEAD.get(name) or (f"did you mean {near[0]!r}?" if near else "")
                raise ParameterError(
                    f"{cls.__name__} has no parameter {name!r}: "
                    + (advice or f"known are {', '.join(known)}.")
                )
        return super().__new__(cls)
