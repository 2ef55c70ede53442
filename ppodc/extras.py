"""Packages that not every installation has, and the extras that bring them.

`pip install ppodc` brings what an owner or an operator needs. `ppodc[NAME]` brings more. The names
and their packages are in pyproject.toml; a test compares them with this table.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ppodc.errors import MissingExtraError

# Extras that bring each package, the one for a laptop first.
_EXTRAS = {
    "gmpy2": ("sklearn", "cloud"),
    "jinja2": ("desk",),
    "llvmlite": ("sklearn", "cloud"),
    "matplotlib": ("plot",),
    "numba": ("sklearn", "cloud"),
    "openpyxl": ("excel",),
    "pandas": ("sklearn", "parquet"),
    "prometheus_client": ("cloud",),
    "psutil": ("bench",),
    "pyarrow": ("parquet",),
    "ray": ("cloud",),
    "scipy": ("sklearn",),
    "sklearn": ("sklearn",),
    "starlette": ("desk",),
    "uvicorn": ("desk",),
}


@contextmanager
def named_if_missing() -> Iterator[None]:
    """Turn the absence of an optional package into a MissingExtraError with the line to type."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        lines = " or ".join(f'pip install "ppodc[{extra}]"' for extra in _EXTRAS[package])
        raise MissingExtraError(
            f"the package {package} is not installed. Install it with: {lines}", package
        ) from error
