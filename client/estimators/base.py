"""The base of the estimators: scikit-learn's interface, without waiting for scikit-learn.

Everything that a fit needs is here. scikit-learn is imported when one of its tools asks for what
only it has: tags, the picture of an estimator in a notebook, or another container for `transform`.
The tools of scikit-learn ask for methods, not for a base class.
"""

import inspect
import sys
from difflib import get_close_matches
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.estimators.parameters import Kinds, ParameterError, check
from ppodc.errors import OptionError
from ppodc.extras import named_if_missing

_INSTEAD = {
    "n_jobs": "worker pairs use several cores: `pairs=` where it is offered, or a platform "
    "(`LocalPlatform(pairs=2)`).",
    "algorithm": "there is one, Lloyd's: a faster one would skip distances by what is in the "
    "records, and both clouds would see it.",
    "copy_x": "tables are never changed.",
    "sample_weight": "every record counts once.",
}
_WIDTH = 80  # signs of a line of `repr`
_LONGEST = 400  # signs of a parameter's value in it


class NotFittedError(ValueError, AttributeError):
    """The estimator has nothing to tell before `fit`; in place of scikit-learn's, if that lacks."""


class Estimator:
    """Parameters, and what scikit-learn's tools ask of every estimator."""

    _kinds: ClassVar[Kinds] = {}
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse parameters that are unknown, before `__init__` would."""
        known = list(cls._defaults())
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                advice = _INSTEAD.get(name) or (f"did you mean {near[0]!r}?" if near else "")
                raise ParameterError(
                    f"{cls.__name__} has no parameter {name!r}: "
                    + (advice or f"known are {', '.join(known)}.")
                )
        return super().__new__(cls)

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The parameters by name, with what they are if nobody says."""
        asked = list(inspect.signature(cls.__init__).parameters.values())[1:]
        named = [each for each in asked if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        return {each.name: each.default for each in sorted(named, key=lambda each: each.name)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; `deep`: also those of estimators among them, as `name__inner`."""
        found: dict[str, Any] = {}
        for name in self._defaults():
            found[name] = value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": own for inner, own in value.get_params().items()}
        return found

    def set_params(self, **given: Any) -> Self:
        """Set parameters by name, those of an estimator among them as `name__inner`."""
        inner: dict[str, dict[str, Any]] = {}
        known = list(self._defaults())
        for key, value in given.items():
            name, deeper, rest = key.partition("__")
            if name not in known:
                raise OptionError(
                    f"Invalid parameter {name!r} for estimator {self!r}. Valid parameters are: "
                    f"{known!r}."
                )
            if deeper:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, own in inner.items():
            getattr(self, name).set_params(**own)
        return self

    def _check_parameters(self) -> None:
        check(type(self).__name__, self.get_params(deep=False), self._kinds)

    def __repr__(self) -> str:
        """The class with the parameters that somebody chose."""
        usual = self._defaults()
        chosen = [
            f"{name}={_shown(value)}"
            for name, value in self.get_params(deep=False).items()
            if not _same(value, usual[name])
        ]
        name = type(self).__name__
        if len(name) + sum(len(each) + 2 for each in chosen) <= _WIDTH:
            return f"{name}({', '.join(chosen)})"
        return "\n".join([f"{name}(", *(f"    {each}," for each in chosen), ")"])

    def _repr_html_(self) -> str | None:
        """The picture that scikit-learn draws, None if it may not or is not installed."""
        try:
            from sklearn import get_config
            from sklearn.utils import estimator_html_repr
        except ImportError:
            return None
        return str(estimator_html_repr(self)) if get_config()["display"] == "diagram" else None

    def _get_params_html(self, *args: Any, **given: Any) -> Any:
        """The table of parameters in scikit-learn's picture."""
        from sklearn.base import BaseEstimator

        return BaseEstimator._get_params_html(self, *args, **given)

    def _get_fitted_attr_html(self, *args: Any, **given: Any) -> Any:
        """The table of results in scikit-learn's picture."""
        from sklearn.base import BaseEstimator

        return BaseEstimator._get_fitted_attr_html(self, *args, **given)

    def __sklearn_tags__(self) -> Any:
        """The facts that scikit-learn's tools ask of an estimator."""
        with named_if_missing():
            from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def get_metadata_routing(self) -> Any:
        """The requests for metadata, of which there are none."""
        with named_if_missing():
            from sklearn.utils.metadata_routing import MetadataRequest

        return MetadataRequest(owner=type(self).__name__)


def check_fitted(estimator: Estimator) -> None:
    """Refuse an estimator without results, by scikit-learn's error if there is one."""
    if any(name.endswith("_") and not name.startswith("__") for name in vars(estimator)):
        return
    said = f"This {type(estimator).__name__} instance is not fitted yet: call `fit` before."
    try:
        from sklearn import exceptions
    except ImportError:
        raise NotFittedError(said) from None
    raise exceptions.NotFittedError(said)


class Clusterer(Estimator):
    """An estimator whose `fit` leaves `labels_`."""

    def fit_predict(self, X: Any, y: object = None, **other: object) -> Any:  # noqa: N803
        """Fit, and give the labels."""
        fitted: Any = self
        return fitted.fit(X, y, **other).labels_

    def __sklearn_tags__(self) -> Any:
        """Those of every estimator, and the type."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        return tags


class Transformer(Estimator):
    """An estimator whose `transform` gives a column for each centre."""

    _sklearn_auto_wrap_output_keys: ClassVar[set[str]] = {"transform"}
    _sklearn_output_config: dict[str, str]
    cluster_centers_: NDArray[Any]

    def fit_transform(self, X: Any, y: object = None, **other: object) -> Any:  # noqa: N803
        """Fit, and transform the same records."""
        fitted: Any = self
        return fitted.fit(X, y, **other).transform(X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the columns of `transform`: the class's name with a number."""
        check_fitted(self)
        if input_features is not None:
            self._check_input_features(np.asarray(input_features, object))
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}{place}" for place in range(len(self.cluster_centers_))], object)

    def _check_input_features(self, names: NDArray[Any]) -> None:
        known = getattr(self, "feature_names_in_", None)
        if known is not None and not np.array_equal(known, names):
            raise OptionError("input_features is not equal to feature_names_in_")
        if len(names) != self.n_features_in_:
            raise OptionError(
                "input_features should have length equal to the number of features "
                f"({self.n_features_in_}), got {len(names)}."
            )

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of `transform`: "default", "pandas" or "polars"; None: as it is."""
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def _contained(self, found: NDArray[np.float64], given: Any) -> Any:
        """The array in the container that this estimator, or scikit-learn's options, ask for."""
        if not hasattr(self, "_sklearn_output_config") and "sklearn" not in sys.modules:
            return found  # nobody can have set an option of scikit-learn
        with named_if_missing():
            from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", found, given, self)

    def __sklearn_tags__(self) -> Any:
        """Those of every estimator, and that it transforms."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        return tags


def _shown(value: Any) -> str:
    """A parameter's value on one line, not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _same(value: Any, usual: Any) -> bool:
    return value is usual or repr(value) == repr(usual)
