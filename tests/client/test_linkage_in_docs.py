"""The linkages in docs/linkage.md are what the estimator and the spec file take."""

import re
from pathlib import Path

from ppodc import RecordLinkage, Spec
from ppodc.kmeans.linked.columns import linkage_of
from ppodc.linkage.estimate import estimate

PAGE = (Path(__file__).parents[2] / "docs" / "linkage.md").read_text()


def example(language: str, word: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return next(block for block in blocks if word in block)


def test_a_linkage_of_numbers_is_estimated():
    code = example("python", "import RecordLinkage").partition("link.fit")[0]
    names: dict[str, RecordLinkage] = {}
    exec(code, names)  # noqa: S102 - of our own page
    assert names["link"].estimate([500, 400]).pairs == 200_000


def test_a_linkage_of_fields_is_estimated():
    names = {"RecordLinkage": RecordLinkage}
    exec(example("python", "import rules"), names)  # noqa: S102 - of our own page
    assert names["link"].estimate([5000, 5000]).epsilon == 2


def test_the_spec_links_inside_k_means_or_alone():
    text = example("toml", "[linkage]")
    assert estimate(linkage_of(Spec.loads(text)), [5000, 5000]).epsilon == 1
    alone = text.replace("[job]\nk = 3\n[linkage]", '[job]\nkind = "linkage"')
    alone = re.sub(r', use = "\w+"', "", alone)
    assert Spec.loads(alone).job.rule == linkage_of(Spec.loads(text)).job.rule
