"""The examples in README and docs that are no sessions run on small tables; specs are specs."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ppodc import Spec
from ppodc.kmeans.linked.columns import linkage_of
from ppodc.linkage.estimate import estimate
from ppodc.local.synthetic import clinics

ROOT = Path(__file__).parents[2]
RUN_ELSEWHERE = ">>>", "deployment/"  # sessions; tests/end_to_end/test_sessions_in_docs.py


def examples(page: str, language: str = "python") -> list[str]:
    blocks = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [block for block in blocks if not any(mark in block for mark in RUN_ELSEWHERE)]


def run(code: str, **names: Any) -> dict[str, Any]:
    exec(code, names)  # noqa: S102 - of our own page
    return names


def patients(rows: int) -> pd.DataFrame:
    return pd.DataFrame(clinics(rows), columns=["age", "pressure"])


def people() -> pd.DataFrame:
    table = patients(90).rename(columns={"age": "height"}).clip(lower=60).round()
    letters = "abcdefghij"
    names = [letters[i // 10] * 3 + letters[i % 10] * 3 for i in range(90)]  # three edits apart
    return table.assign(surname=names, postcode="10115", birth_year=1980)


def test_every_example_is_run_by_this_file():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = {str(p.relative_to(ROOT)): len(examples(str(p.relative_to(ROOT)))) for p in pages}
    with_examples = {page: count for page, count in found.items() if count}
    assert with_examples == {"README.md": 1, "docs/linkage.md": 4, "docs/privacy.md": 1}


def test_the_five_lines_of_the_readme():
    (code,) = examples("README.md")
    table = patients(200)
    names = run(code, hospital_a=table[::2], hospital_b=table[1::2], new_patients=table[:3])
    assert names["model"].sizes_.sum() == 200


def test_linkages_by_numbers_and_by_fields():
    numbers, fields, levels, dedup = examples("docs/linkage.md")
    rows = np.column_stack([np.arange(1930, 2010, 10), np.full(8, 120)])
    names = run(numbers, clinic_a=rows[:5], clinic_b=rows[3:])
    assert names["link"].links_.tolist() == [(3, 0), (4, 1)]
    names = run(fields, RecordLinkage=names["RecordLinkage"])
    assert names["link"].estimate([5000, 5000]).epsilon == 2
    assert run(levels, rules=names["rules"])["rule"].threshold == 12
    link = names["link"].set_params(blocks="none")  # with blocks mostly dummies would be linked
    table = people()
    code = "from ppodc import SecureKMeans\nmodel = " + dedup
    counted = run(code, link=link, clinic_a=table[:60], clinic_b=table[30:])["model"]
    assert counted.sizes_.sum() == 90


def test_a_local_result():
    (code,) = examples("docs/privacy.md")
    points = np.random.default_rng(1).uniform(0, 1, (3000, 2))
    with pytest.warns(UserWarning, match="noise"):
        names = run(code, clinic_a=points[:1500], clinic_b=points[1500:])
    assert names["model"].cluster_centers_.shape == (15, 2)


def test_the_spec_links_inside_k_means_or_alone():
    text = next(spec for spec in examples("docs/linkage.md", "toml") if "[linkage]" in spec)
    assert estimate(linkage_of(Spec.loads(text)), [5000, 5000]).epsilon == 1
    alone = text.replace("[job]\nk = 3\n[linkage]", '[job]\nkind = "linkage"')
    alone = re.sub(r', use = "\w+"', "", alone)
    assert Spec.loads(alone).job.rule == linkage_of(Spec.loads(text)).job.rule


def test_the_spec_joins_two_sides():
    (text,) = examples("docs/joined.md", "toml")
    spec = Spec.loads(text)
    assert [side.name for side in spec.job.joined(spec.schema).sides] == ["clinic", "insurer"]
