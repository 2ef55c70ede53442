"""Checks of every page for screen readers, small screens and large letters.

With axe-core at hand (PPODC_AXE names its axe.min.js) its findings count as well.
"""

import os
from pathlib import Path
from typing import Any

# A window that was just resized is measured once it is drawn in its new size.
_DRAWN = "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
_OWN = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def check_page(page: Any, where: str, *, thorough: bool) -> None:
    """Fails with every fault of the page as it is shown now; `thorough` asks axe-core too."""
    page.evaluate(_DRAWN)
    faults = page.evaluate(_OWN)
    assert not faults, f"{where}: {faults}"
    axe = os.environ.get("PPODC_AXE", "")
    if not axe or not thorough:
        return
    page.evaluate(Path(axe).read_text(encoding="utf-8"))
    found = page.evaluate(
        "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
        ".map(v => [v.id, v.impact, v.nodes.slice(0, 3).map(n => n.html.slice(0, 160))])"
    )
    assert not found, f"{where}: {found}"
