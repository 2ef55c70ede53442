"""The values that an estimator's parameters may have, checked when `fit` begins."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np

from ppodc.errors import OptionError


class ParameterError(OptionError, TypeError):
    """A parameter that the estimator does not have, or a value that it does not take."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Some values that a parameter takes, and their name in an error."""

    words: str
    holds: Callable[[Any], bool]


def whole(low: int, high: int | None = None) -> Kind:
    """Whole numbers from low to high, both included."""
    end = "inf)" if high is None else f"{high}]"
    return Kind(
        f"an int in the range [{low}, {end}",
        lambda x: isinstance(x, Integral) and low <= int(x) and (high is None or int(x) <= high),
    )


def real(low: float, high: float | None = None, *, closed: bool) -> Kind:
    """Numbers from low, itself included if closed, to below high."""
    top = inf if high is None else high
    ends = f"{'[' if closed else '('}{low}, {top})"

    def holds(x: Any) -> bool:
        return isinstance(x, Real) and low <= float(x) < top and (closed or float(x) != low)

    return Kind(f"a float in the range {ends}", holds)


def among(*words: str) -> Kind:
    """One of these words."""
    shown = ", ".join(map(repr, sorted(words)))
    return Kind(f"a str among {{{shown}}}", lambda x: isinstance(x, str) and x in words)


def instance(kind: type) -> Kind:
    """Objects of a class."""
    return Kind(f"an instance of {kind.__name__!r}", lambda x: isinstance(x, kind))


def loaded(module: str, name: str) -> Kind:
    """Objects of a class of a module, which nobody has as long as it is not imported."""

    def holds(x: Any) -> bool:
        return module in sys.modules and isinstance(x, getattr(sys.modules[module], name, ()))

    return Kind(f"an instance of {name!r}", holds)


def _is_array(value: Any) -> bool:
    if getattr(value, "shape", None) == () or isinstance(value, str):
        return False
    return any(hasattr(value, name) for name in ("__len__", "shape", "__array__"))


WHOLE = whole(1)
POSITIVE = real(0, closed=False)
NOTHING = Kind("None", lambda x: x is None)
BOOLEAN = Kind("a bool", lambda x: isinstance(x, bool | np.bool_))
VERBOSE = Kind("a bool or an int from 0", lambda x: isinstance(x, np.bool_) or whole(0).holds(x))
TEXT = instance(str)
BY_NAME = instance(Mapping)
ARRAY = Kind("an array-like", _is_array)
RANDOM_STATE = Kind("an object with `randint`", lambda x: hasattr(x, "randint"))
Kinds = Mapping[str, Sequence[Kind]]


def check(estimator: str, given: Mapping[str, Any], kinds: Kinds) -> None:
    """Refuse the first value that its parameter does not take."""
    for name, value in given.items():
        allowed = kinds.get(name, ())
        if allowed and not any(kind.holds(value) for kind in allowed):
            words = [kind.words for kind in allowed]
            listed = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
            raise ParameterError(
                f"The {name!r} parameter of {estimator} must be {listed}. Got {value!r} instead."
            )
