"""Measurements behind `ppodc bench`: a module each, with `run(...) -> Document`; some can draw."""
