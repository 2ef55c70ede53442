"""Results, specs and privacy reports in notebooks, from the desk's own templates."""

import re
from typing import Any

from client.desk.agreement import agreement, kind_in_words, smallest
from client.desk.pages import HERE, environment
from client.desk.result_view import view
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.spec import Spec


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
    style = (HERE / "static" / "desk.css").read_text(encoding="utf-8")
    nested = re.sub(r"(:root|\bbody)(?= \{)", "&", style)
    return environment().get_template("notebook.html").render(style=nested, **values)
