"""Results, specs and privacy reports in notebooks, by the templates of the desk.

The templates are the owners' code, which nothing in here depends on. It is looked up by name when
a notebook asks for HTML; where it or its packages (`ppodc[desk]`) are not there, the notebook shows
the plain text.
"""

from importlib import import_module

_PLACE = "client.desk.notebook"


class ShownInNotebooks:
    """Gives a class the method by which Jupyter and others get its HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        try:
            place = import_module(_PLACE)
        except ModuleNotFoundError:
            return None
        return str(place.html_of(self))
