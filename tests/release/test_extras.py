"""The light client: what runs without extras, and how a missing one is named."""

import tomllib
from contextlib import ExitStack

import numpy as np
import pytest

import ppodc
from ppodc import extras
from ppodc.records.encode import encode
from tests.client.two_gateways import Platform, finish_job, new_deployment, serve, table
from tests.release.bare import BASE, OPTIONAL, ROOT, bare_python, command
from tests.service.data import make_spec

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
IMPORTED_AS = {"pyzmq": "zmq", "scikit-learn": "sklearn", "prometheus-client": "prometheus_client"}
BROUGHT_BY_OTHERS = {"llvmlite": "numba", "scipy": "scikit-learn"}


@pytest.fixture
def platform(tmp_path):
    deployment = new_deployment(tmp_path / "new", ["ann", "bob"])
    with ExitStack() as stack:
        platform = Platform(deployment, serve(deployment, stack))
        platform.create(make_spec())
        yield platform


def packages(lines) -> set[str]:
    """The distributions that these requirement lines name, without ppodc itself."""
    names = {line.partition(">")[0].partition("[")[0] for line in lines}
    return names - {"ppodc"}


def everything(extra: str) -> set[str]:
    """The distributions of an extra, and of the extras that it takes in."""
    found = packages(EXTRAS[extra])
    for line in EXTRAS[extra]:
        if line.startswith("ppodc["):
            for other in line.removeprefix("ppodc[").rstrip("]").split(","):
                found |= everything(other)
    return found


def test_the_base_is_what_the_light_client_may_load():
    assert {IMPORTED_AS.get(name, name) for name in packages(PROJECT["dependencies"])} == BASE


def test_every_optional_package_is_in_the_extras_that_are_named_for_it():
    assert set(extras._EXTRAS) == OPTIONAL
    as_distribution = {imported: name for name, imported in IMPORTED_AS.items()}
    for package, named in extras._EXTRAS.items():
        wanted = BROUGHT_BY_OTHERS.get(package) or as_distribution.get(package, package)
        for extra in named:
            assert wanted in everything(extra), (package, extra)


def test_all_has_every_extra_of_a_user_and_dev_has_all():
    users = {"desk", "excel", "sklearn", "cloud", "cluster", "plot", "parquet"}
    assert everything("all") == set().union(*map(everything, users))
    assert everything("dev") >= everything("all") | everything("bench") | everything("docs")


@pytest.mark.parametrize("posix", [True, False], ids=["light", "light without POSIX"])
def test_an_owner_uploads_and_fetches_with_the_base_alone(platform, tmp_path, posix):
    spec, rows = make_spec(), table(20, 1)
    np.savetxt(
        tmp_path / "own.csv", rows, delimiter=",", header=",".join(spec.schema.names), comments=""
    )
    config = str(platform.deployment.party("ann").config)
    lines = [["spec", "clinic"], ["upload", "clinic", "own.csv"], ["datasets"]]
    for line in lines:
        code = command(*line, "--config", config)
        done = bare_python(code, tmp_path, posix=posix)
        assert done.returncode == 0, done.stderr
    with platform.owner("bob") as bob:
        bob.upload("clinic", table(9, 2))
    platform.seal()
    both = np.concatenate([encode(part, spec.schema) for part in (rows, table(9, 2))])
    assert np.array_equal(platform.records(), both)
    trace = finish_job(platform)
    code = (
        "from ppodc import Owner\n"
        f"with Owner.connect({config!r}) as owner:\n"
        "    print(owner.result('clinic', timeout=60).sizes_.tolist())\n"
    )
    done = bare_python(code, tmp_path, posix=posix)
    assert done.stdout.split("\n")[0] == str(trace.sizes.tolist()), done.stderr


@pytest.mark.parametrize("posix", [True, False], ids=["light", "light without POSIX"])
def test_a_party_makes_its_folder_and_key_with_the_base_alone(tmp_path, posix):
    for line in (
        ["init", "deployment", "--owners", "2"],
        ["sample-spec", "--deployment", "deployment"],
        ["invite", "study.invitation", "--config", "deployment/owner1/owner.toml"],
        ["join-deployment", "study.invitation", "--name", "eve", "--folder", "eve"],
    ):
        done = bare_python(command(*line), tmp_path, posix=posix)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "eve" / "owner.toml").exists()


@pytest.mark.parametrize("posix", [True, False], ids=["desk", "desk without POSIX"])
def test_the_desk_loads_with_its_extra_alone(tmp_path, posix):
    hidden = OPTIONAL - {"jinja2", "starlette", "uvicorn"}
    code = "import client.desk.start, client.desk.screens, client.desk.owner_screens\n"
    done = bare_python(code, tmp_path, hidden=hidden, posix=posix)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        (["desk", "--no-browser"], "desk"),
        (["cloud1", "serve", "--config", "deployment/cloud1/cloud1.toml"], "cloud"),
        (["bench", "iteration"], "bench"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(tmp_path, line, extra):
    assert bare_python(command("init", "deployment"), tmp_path).returncode == 0
    done = bare_python(command(*line), tmp_path)
    assert done.returncode == 2
    assert f'pip install "ppodc[{extra}]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from ppodc import SecureKMeans\nSecureKMeans(1, bounds=(0, 1)).fit([[0], [1]])",
         "sklearn"),
        ("from ppodc import LocalPlatform\nwith LocalPlatform(): pass", "cloud"),
        ("open('a.parquet', 'w')\nfrom ppodc.records.read_table import read\nread('a.parquet')",
         "parquet"),
    ],
)  # fmt: skip
def test_python_names_the_extra_that_it_lacks(tmp_path, code, extra):
    done = bare_python(code, tmp_path)
    assert "MissingExtraError: the package" in done.stderr
    assert f'pip install "ppodc[{extra}]"' in done.stderr


def test_a_fit_needs_neither_scikit_learn_nor_pandas(tmp_path):
    code = """
from ppodc import SecureKMeans
model = SecureKMeans(2, bounds=(0, 9), min_size=1, random_state=1)
try:
    model.predict([[1]])
except (ValueError, AttributeError) as error:
    print(type(error).__name__)
print(model.fit([[[1], [2]], [[8]]]).sizes_.tolist(), model.predict([[1]]) == model.labels_[0])
assert model.transform([[1]]).shape == (1, 2) and model._repr_html_() is None
try:
    model.to_frame()
except ImportError as error:
    print(error)
"""
    done = bare_python(code, tmp_path, hidden=OPTIONAL - {"gmpy2", "llvmlite", "numba"})
    assert done.returncode == 0, done.stderr
    missing, fitted, advice = done.stdout.splitlines()
    assert (missing, fitted) == ("NotFittedError", "[2, 1] [ True]")
    assert 'the package pandas is not installed. Install it with: pip install "ppodc' in advice


def test_a_missing_extra_is_an_import_error_and_ours():
    with pytest.raises(ImportError, match=r"ppodc\[plot\]") as caught, extras.named_if_missing():
        raise ModuleNotFoundError("No module named 'matplotlib.axes'", name="matplotlib.axes")
    assert (caught.value.name, caught.value.code) == ("matplotlib", "missing-extra")


def test_a_module_of_nobodys_extra_stays_missing():
    with pytest.raises(ModuleNotFoundError, match="other"), extras.named_if_missing():
        raise ModuleNotFoundError("No module named 'other'", name="other")


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT["dynamic"]
    done = bare_python(command("--version"), ROOT)
    assert done.stdout.strip() == f"ppodc {ppodc.__version__}"
