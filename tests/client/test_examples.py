"""Examples of the public classes give what they show; parameter lines fit the signatures."""

import doctest
import inspect
import re
from dataclasses import replace

import pytest

import ppodc
from tests.client.two_gateways import finish_job, table

ALONE = [
    "SecureKMeans", "SecureTotals", "RecordLinkage", "LocalPrivateKMeans", "LocalPrivateKModes",
    "LocalPrivateKPrototypes", "LocalPrivateSplitKMeans", "LocalPrivateDBSCAN", "ThreadPlatform",
]  # fmt: skip
DEPLOYED = ["Owner", "Operator", "RemotePlatform"]
DOCUMENTED = [*ALONE, *DEPLOYED, "LocalPlatform", "link_with"]


def run_example(name: str, **given: object) -> None:
    """Run the docstring of a class alone, and be sure that it has an example."""
    flags = doctest.NORMALIZE_WHITESPACE
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=flags)
    text = inspect.getdoc(getattr(ppodc, name))
    test = parser.get_doctest(text, dict(given), name, None, None)
    assert test.examples
    said: list[str] = []
    runner.run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", ALONE)
def test_an_example_that_needs_nothing_else(name):
    run_example(name)


@pytest.mark.parametrize("name", DEPLOYED)
def test_an_example_against_two_clouds(platform, monkeypatch, name):
    monkeypatch.chdir(platform.deployment.folder)
    spec = platform.stores[0].datasets.spec("clinic")

    def start(_dataset: str) -> None:
        platform.seal()
        finish_job(platform)

    other = replace(spec, name="other", job=replace(spec.job, min_size=5))
    run_example(name, spec=spec, other=other, rows=table(8), start=start)


def documented(text: str) -> dict[str, str | None]:
    """The defaults of the parameters in a docstring, by name; None: it has none."""
    section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n[A-Z]\w+\n-+|\Z)", text, re.S)
    assert section is not None
    lines = re.findall(r"^\*?(\w+) : (.+)$", section.group(1), re.M)
    return {name: (re.findall(r"default=(.+)$", rest) or [None])[0] for name, rest in lines}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_parameter_is_documented_with_its_default(name):
    place = getattr(ppodc, name)
    shown = documented(inspect.getdoc(place))
    parameters = inspect.signature(place).parameters
    assert list(shown) == list(parameters)
    for each, parameter in parameters.items():
        default = parameter.default
        if default is inspect.Parameter.empty or callable(default):
            assert shown[each] is None
        else:
            assert shown[each] in (repr(default).replace("'", '"'), str(default), f'"{default}"')
