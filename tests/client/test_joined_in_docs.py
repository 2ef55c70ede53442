"""The spec in docs/joined.md is one."""

import re
from pathlib import Path

from ppodc.spec import Spec

PAGE = Path(__file__).parents[2] / "docs" / "joined.md"


def test_the_spec_joins_two_sides():
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    spec = Spec.loads(text)
    assert [side.name for side in spec.job.joined(spec.schema).sides] == ["clinic", "insurer"]
