"""The import direction is the trust boundary: no party's code reaches into another party's.

Two exceptions load `client` by name, and only when a user asks: `ppodc/__init__.py`, so that
`from ppodc import Owner` works, and `ppodc/notebook.py`, by which notebooks show results. No code
in here asks for either.

Inside `ppodc/` a lower room never imports a higher one, and rooms of one storey do not import each
other: the tree can be read from the bottom.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ppodc

ROOT = Path(__file__).parents[1]
PARTIES = {"ppodc", "cloud1", "cloud2", "master", "client"}
MAY_IMPORT = {
    "ppodc": {"ppodc"},
    "client": {"client", "ppodc"},
    "cloud1": {"cloud1", "ppodc"},
    "cloud2": {"cloud2", "ppodc"},
    "master": {"master", "cloud1", "ppodc"},
}
STOREYS = (
    {"errors"},
    {"extras", "files", "names", "notebook", "toml_document"},
    {"transport", "crypto"},
    {"privacy"},
    {"records"},
    {"mpc", "kinds", "members"},
    {"spec"},
    {"service", "cluster"},
    {"pairs"},
    {"audit"},
    {"local_dp", "linkage"},  # kinds of jobs; loaded by name, through kinds
    {"kmeans", "totals", "rules"},  # they link or join records before their own steps
    {"local"},
    {"bench"},
    {"cli"},
)
COMMAND = ROOT / "ppodc" / "cli"  # the command may name the parties
FORBIDDEN = {"pickle", "cloudpickle", "marshal", "shelve", "dill"}


def imports(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    """Every import but those that only type checkers see."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found: list[tuple[ast.AST, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            found += [(node, f"{module}.{alias.name}") for alias in node.names]
    return found


TREES = {
    file: ast.parse(file.read_text())
    for party in sorted(PARTIES)
    for file in sorted((ROOT / party).rglob("*.py"))
}
IMPORTS = {file: imports(tree) for file, tree in TREES.items()}


def rooms_of(file: Path) -> tuple[str, ...]:
    return file.relative_to(ROOT).with_suffix("").parts


def storey(room: str) -> int:
    return next(i for i, rooms in enumerate(STOREYS) if room in rooms)


def test_imports_follow_the_trust_boundary():
    assert len(TREES) > 500
    for file, found in IMPORTS.items():
        party, top_level = rooms_of(file)[0], {id(node) for node in TREES[file].body}
        for node, name in found:
            package = name.split(".")[0]
            assert package not in FORBIDDEN, f"{file}: {name} can run code of another party"
            if package in PARTIES and package not in MAY_IMPORT[party]:
                assert COMMAND in file.parents, f"{file} must not import {name}"
                assert id(node) not in top_level, f"{file}: load {name} when its command is called"


def test_a_lower_room_never_imports_a_higher_one():
    for file, found in IMPORTS.items():
        party, own, *_ = rooms_of(file)
        if party != "ppodc" or own == "__init__":
            continue
        for _, name in found:
            room = (*name.split("."), "")[1]
            if name.startswith("ppodc.") and room != own:
                assert storey(room) < storey(own), f"{file} must not import {name}"


def test_nobody_here_takes_a_users_name_from_ppodc():
    offered = {f"ppodc.{name}" for name in ppodc.__all__}
    for file, found in IMPORTS.items():
        taken = offered & {name for _, name in found}
        assert rooms_of(file)[0] == "client" or not taken, f"{file} takes {taken}"


HEAVY = {"numba", "gmpy2", "ray", "sklearn", "pandas", "pyarrow", "matplotlib", "scipy"}
ENGINES = ("ppodc.mpc", "ppodc.service.store")
# Modules that see an owner's records; `owner.py` of every kind besides.
PLAINTEXT = {
    "ppodc.records.read_table", "ppodc.records.encode", "ppodc.records.owner_side",
    "ppodc.linkage.owner_table", "ppodc.local_dp.owner_reports",
}  # fmt: skip
EVERY_SPEC = """
from ppodc import kinds
from ppodc.spec import Spec
specs = [Spec.loads(kinds.named(name).sample) for name in kinds.ROOMS]
"""
READING = (
    EVERY_SPEC
    + """
for spec in specs:
    spec.describe(), spec.digest, spec.to_toml(), spec.kind.row_outputs(spec)
    spec.form.part(1), spec.form.part(2), spec.form.privacy()
"""
)
COMMAND_LINE = """
import sys
from ppodc.cli import app
try:
    app([{argument!r}])
except SystemExit:
    pass
"""
GATEWAY = READING + "import ppodc.service.operations, ppodc.transport.gateway\n"
CLOUD = READING + "[kinds.cloud_side(spec) for spec in specs if spec.kind.suites]\n"
ESTIMATORS = """
import ppodc
places = ppodc._PLACES.items()
names = [name for name, place in places if place.startswith("client.estimators.")]
made = [getattr(ppodc, name)() for name in names]
assert len(made) == 8, made
print(made, [each.get_params() for each in made], ppodc.ThreadPlatform())
"""
FIT = """
from ppodc import SecureKMeans
model = SecureKMeans(2, bounds=(0, 1), min_size=1).fit([[[0, 0], [0, 1]], [[1, 1]]])
model.predict([[0, 0]]), model.transform([[0, 0]]), model.score([[0, 0]]), repr(model)
"""
CLOUDS = {
    "the gateway": GATEWAY,
    "cloud 1": CLOUD + "import cloud1.service, cloud1.worker",
    "the collector": CLOUD + "import cloud1.collector, cloud1.report_workers, ppodc.local_dp.cloud",
    "the master": CLOUD + "import master.job, master.driver, master.sealing, master.session",
    "cloud 2": CLOUD + "import cloud2.service, cloud2.worker, cloud2.follower",
}


def loaded(code: str) -> set[str]:
    """The modules that a fresh process has after this code."""
    code += "\nimport sys\nprint('\\nLOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("LOADED ")[2].split())


def packages(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules}


def test_ppodc_loads_no_party():
    modules = loaded("import ppodc, ppodc.spec, ppodc.pairs.cloud_job")
    assert "ppodc.pairs.cloud_job" in modules
    assert not packages(modules) & (PARTIES - {"ppodc"})


@pytest.mark.parametrize(
    "code",
    [
        READING,
        "from ppodc import Owner",
        "from ppodc import Operator",
        ESTIMATORS,
        COMMAND_LINE.format(argument="--help"),
        COMMAND_LINE.format(argument="--version"),
    ],
    ids=["specs", "Owner", "Operator", "estimators", "--help", "--version"],
)
def test_what_needs_no_engine_loads_none(code):
    modules = loaded(code)
    assert "ppodc" in modules
    assert not packages(modules) & HEAVY
    assert not [name for name in modules if name.startswith(ENGINES)]


def test_a_fit_on_arrays_loads_nothing_that_only_some_users_have():
    modules = loaded(FIT)
    assert "numba" in modules
    assert not packages(modules) & {"sklearn", "pandas", "pyarrow", "ray", "rich", "typer"}
    assert "client.owner" not in modules


@pytest.mark.parametrize("code", CLOUDS.values(), ids=CLOUDS)
def test_no_cloud_loads_a_reader_of_plaintext(code):
    modules = loaded(code)
    owners = {name for name in modules if name.startswith("ppodc.") and name.endswith(".owner")}
    assert not owners | (modules & PLAINTEXT)
    assert "client" not in packages(modules)


def test_a_gateway_loads_no_protocol():
    modules = loaded(GATEWAY)
    assert not packages(modules) & HEAVY
    assert not [name for name in modules if name.startswith("ppodc.mpc")]


def test_planning_linkages_joins_and_what_follows_them_loads_no_kernels():
    """A master keeps shares and never computes on them; a worker loads a half when it opens one."""
    kinds = "import ppodc.linkage.cloud, ppodc.kmeans.cloud, ppodc.totals.cloud"
    modules = loaded(f"{kinds}, master.job, master.driver, master.sealing, master.session")
    assert {"ppodc.linkage.plan", "ppodc.linkage.joined.joining", "ppodc.linkage.ahead"} <= modules
    assert not packages(modules) & (HEAVY - {"gmpy2"})
    assert "ppodc.linkage.half" not in modules


def test_a_half_of_the_paillier_suite_loads_no_kernels():
    modules = loaded("import ppodc.kmeans.paillier.half, ppodc.local.pair_process, cloud2.worker")
    assert "ppodc.kmeans.half" in modules
    assert not packages(modules) & (HEAVY - {"gmpy2"})


def test_every_room_has_its_storey():
    rooms = {path.stem for path in (ROOT / "ppodc").iterdir() if path.stem[:2] not in ("__", "py")}
    assert rooms == set().union(*STOREYS)


def test_only_measurements_use_weak_randomness():
    """numpy.random and random make synthetic data, never anything that hides a value."""
    for file, found in IMPORTS.items():
        if ROOT / "ppodc" / "bench" in file.parents or file.name == "synthetic.py":
            continue
        weak = [name for _, name in found if re.match(r"random\b|numpy\.random", name)]
        assert not weak, f"{file} imports {weak}"
        assert "np.random" not in file.read_text(), file
