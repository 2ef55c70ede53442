"""The import direction is the trust boundary: no party's code reaches into another party's."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTIES = {"ppodc", "cloud1", "cloud2", "master", "client"}
MAY_IMPORT = {
    "ppodc": {"ppodc"},
    "client": {"client", "ppodc"},
    "cloud1": {"cloud1", "ppodc"},
    "cloud2": {"cloud2", "ppodc"},
    "master": {"master", "cloud1", "ppodc"},
}
COMMAND = ROOT / "ppodc" / "cli"  # the command may name the parties
FORBIDDEN = {"pickle", "cloudpickle", "marshal", "shelve", "dill"}
SECRET_RANDOM = {"random", "numpy.random"}


def imports(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    found: list[tuple[ast.AST, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.append((node, node.module or ""))
    return found


def sources() -> list[Path]:
    return [file for party in sorted(PARTIES) for file in sorted((ROOT / party).rglob("*.py"))]


@pytest.mark.parametrize("file", sources(), ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_follow_the_trust_boundary(file):
    party = file.relative_to(ROOT).parts[0]
    tree = ast.parse(file.read_text())
    is_command = file == COMMAND.with_suffix(".py") or COMMAND in file.parents
    top_level = {id(node) for node in tree.body}
    for node, name in imports(tree):
        package = name.split(".")[0]
        assert package not in FORBIDDEN, f"{name} can run code that came from another party"
        if package in PARTIES and package not in MAY_IMPORT[party]:
            assert is_command, f"{party} must not import {name}"
            assert id(node) not in top_level, f"load {name} only when its command is called"


@pytest.mark.parametrize("file", sources(), ids=lambda f: str(f.relative_to(ROOT)))
def test_only_measurements_use_weak_randomness(file):
    """numpy.random and random make synthetic data, never anything that hides a value."""
    measures = ROOT / "ppodc" / "bench" in file.parents
    if measures or file.name == "synthetic.py":
        return
    text = file.read_text()
    tree = ast.parse(text)
    assert not [name for _, name in imports(tree) if name in SECRET_RANDOM]
    assert "np.random" not in text
    assert "numpy.random" not in text
