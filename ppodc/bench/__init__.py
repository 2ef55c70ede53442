"""Measurements behind `ppodc bench`: each module has `run(...) -> dict` and `show(result)`."""
