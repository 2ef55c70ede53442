"""Run a task of another library in its own interpreter: JSON in, JSON out."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ppodc.errors import InputError


def ask(script: Path, task: dict[str, Any], python: Path | None, *, hint: str = "") -> Any:
    """Return the answer of a script; raise InputError with its last line and `hint` on failure."""
    command = [str(python or sys.executable), "-I", "-W", "ignore", str(script)]
    text = json.dumps(task)
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InputError(f"{command[0]} cannot be run: {error.strerror}.") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"{task['peer']} could not be run: {last}{hint}")
    return json.loads(done.stdout)
