"""Errors of estimators, as the tools of scikit-learn expect them."""

from collections.abc import Iterator
from contextlib import contextmanager

from ppodc.errors import InputError


class DataError(InputError):
    """An InputError of an estimator."""


@contextmanager
def as_data_errors() -> Iterator[None]:
    """Raise every InputError of the block as a DataError."""
    try:
        yield
    except DataError:
        raise
    except InputError as error:
        raise DataError(str(error)) from error
