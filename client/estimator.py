"""Parameters by name, as scikit-learn's estimators have them."""

import inspect
from typing import Any, Self


class Estimator:
    """What `__init__` takes are the parameters; they are attributes of the same names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        for name, value in params.items():
            if name not in self._names():
                known = ", ".join(self._names())
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {known}."
                )
            setattr(self, name, value)
        return self

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({shown})"
