"""A result as one HTML file without own rows: style inside, nothing asked of anybody."""

from typing import Any

from client.desk.agreement import agreement, counted, kind_in_words, smallest
from client.desk.pages import HERE, environment
from client.desk.result_view import view
from ppodc.spec import Spec


def report(spec: Spec, result: Any, k: int = 0, axes: tuple[int, int] = (0, 1)) -> str:
    """Centres, totals or counts of a study, who learns what, and its number.

    `k` and `axes` choose what is shown of several numbers of clusters, and the plotted columns.
    """
    shown = view(result, min_size=smallest(spec), k=k, axes=axes)
    shown.links = []  # own rows stay out
    return (
        environment()
        .get_template("report.html")
        .render(
            spec=spec,
            kind=kind_in_words(spec),
            shown=shown,
            words=agreement(spec),
            min_size=smallest(spec),
            counted=counted(spec),
            style=(HERE / "static" / "desk.css").read_text(encoding="utf-8"),
        )
    )
