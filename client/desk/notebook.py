"""Results, specs and privacy reports in notebooks, from the desk's own templates.

`html_of` makes the HTML; `register` tells IPython to show these types with it. IPython takes types
by name, so that nothing is loaded before there is something to show.
"""

from typing import Any

from client.desk.agreement import agreement, kind_in_words, smallest
from client.desk.pages import HERE, environment
from client.desk.result_view import view
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.spec import Spec

SHOWN = (
    ("ppodc.spec", "Spec"),
    ("ppodc.privacy.guarantee", "PrivacyReport"),
    ("ppodc.kmeans.result", "Result"),
    ("ppodc.kmeans.result", "ResultsByK"),
    ("ppodc.kmeans.private.result", "PrivateResult"),
    ("ppodc.totals.result", "Totals"),
    ("ppodc.linkage.result", "LinkResult"),
    ("ppodc.linkage.result", "LinkCount"),
    ("ppodc.local_dp.result", "LocalResult"),
)


def html_of(shown: Any) -> str:
    """A spec, a privacy report or any result, as HTML that needs nothing else."""
    values: dict[str, Any] = {"spec": None, "words": None, "shown": None, "privacy": []}
    if isinstance(shown, Spec):
        values |= {"spec": shown, "words": agreement(shown), "kind": kind_in_words(shown)}
        values["min_size"] = smallest(shown)
    elif isinstance(shown, PrivacyReport):
        values["privacy"] = shown.describe()
    else:
        values["shown"] = view(shown)
    style = (HERE / "static" / "desk.css").read_text(encoding="utf-8").replace(":root", ":scope")
    return environment().get_template("notebook.html").render(style=style, **values)


def register(shell: Any) -> None:
    """Show these types by `html_of` in this IPython shell."""
    html = shell.display_formatter.formatters["text/html"]
    for module, name in SHOWN:
        html.for_type_by_name(module, name, html_of)


load_ipython_extension = register  # %load_ext client.desk.notebook
