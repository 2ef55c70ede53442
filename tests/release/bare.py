"""A fresh process that lacks packages, and, on request, what only POSIX systems have.

It stands for an owner's machine with the light client, and for one with Windows. Nobody has run
this code on Windows: what is hidden here is what Python does not have there.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.patience import LONG

ROOT = Path(__file__).parents[2]
BASE = {"cryptography", "filelock", "msgspec", "numpy", "rich", "typer", "zmq"}
OPTIONAL = {
    "gmpy2", "jinja2", "llvmlite", "matplotlib", "numba", "openpyxl", "pandas",
    "prometheus_client", "psutil", "pyarrow", "ray", "scipy", "sklearn", "starlette", "uvicorn",
}  # fmt: skip
_HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
_WITHOUT_POSIX = """
import {loaded}, asyncio, multiprocessing, subprocess, tempfile, shutil, webbrowser
import os, select, signal, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for module, names in (
    (os, "chown fchown fork geteuid getuid killpg preadv pwrite set_blocking sysconf umask"),
    (select, "poll epoll"),
    (signal, "SIGHUP SIGKILL SIGUSR1 SIGALRM pthread_sigmask"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
os.supports_fd = set()
real_open, real_stat = os.open, os.stat
def open_file(path, flags, mode=0o777, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return real_open(path, flags, mode, **more)
def stat_like_windows(path, **more):  # every file looks open to all
    found = real_stat(path, **more)
    fields = list(found)
    fields[0] |= 0o666
    return os.stat_result(fields)
os.open = open_file
os.stat = stat_like_windows
"""


def bare_python(
    code: str, folder: Path, *, hidden: set[str] = OPTIONAL, posix: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run the code in the folder, without the hidden packages."""
    before = _HIDE.format(names=hidden)
    if not posix:  # other people's packages load first: they are at home on Windows
        before += _WITHOUT_POSIX.format(loaded=", ".join(sorted(BASE)))
    return subprocess.run(
        [sys.executable, "-c", before + code],
        cwd=folder, capture_output=True, text=True, timeout=LONG,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
    )  # fmt: skip


def command(*words: str) -> str:
    """Code that runs a command line of `ppodc`."""
    return f"import sys\nfrom ppodc.cli import main\nsys.argv = {['ppodc', *words]!r}\nmain()\n"
