"""The documentation site: `make docs`.

Sources are Markdown files of the repository, so that every link works there too. A page that no
index lists, a link that leads nowhere or an anchor that does not exist fails the build. A line
`<!-- generated: NAME FILE... -->` is replaced by what docs/reference_pages.py makes of the code.
"""

import re
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import reference_pages  # noqa: E402 - beside this file

import ppodc  # noqa: E402 - of this tree

project = "ppodc"
author = "the ppodc authors"
copyright = "the ppodc authors, Apache 2.0"  # noqa: A001 - Sphinx' name
version = release = ppodc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "cluster_configs/**.md",
]
exclude_patterns = [".*", "build", "**/__pycache__"]
nitpicky = False

myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
toc_object_entries = False
default_role = "code"  # single backticks in docstrings

html_theme = "furo"
html_title = f"ppodc {release}"
html_show_sourcelink = False
html_copy_source = False
html_additional_pages = {"index": "go_home.html"}
templates_path = ["_templates"]
pygments_style = "default"


def _insert_generated(_app: Any, _name: str, source: list[str]) -> None:
    source[0] = re.sub(
        r"^<!-- generated: (\w+)(.*) -->$",
        lambda found: reference_pages.PAGES[found[1]](*found[2].split()),
        source[0],
        flags=re.MULTILINE,
    )


def _made_anew(_app: Any, env: Any, *_: Any) -> list[str]:
    """Pages that depend on the code are read in every build."""
    return [
        name
        for name in env.found_docs
        if name.startswith(("docs/reference/", "docs/parameters", "docs/measured"))
    ]


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("env-get-outdated", _made_anew)
    app.connect("source-read", _insert_generated)
