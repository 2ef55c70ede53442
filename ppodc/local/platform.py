"""The whole platform on this machine: one Ray, two clouds as processes, a folder for each party.

Everything is started through the command, as an operator would, and talks CURVE over loopback.
There is no protection from whoever runs this machine; it is for trials, tests and small jobs.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ppodc.cluster.offspring import end_with_starter
from ppodc.cluster.ray_head import LocalRay
from ppodc.errors import OptionError, PpodcError, StateError
from ppodc.extras import named_if_missing
from ppodc.members import Members
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, load
from ppodc.service.sealed_uploads import Sealed
from ppodc.service.store import Store

_PPODC = (sys.executable, "-P", "-m", "ppodc.cli")  # -P: not the modules of the user's folder
_RESERVED: list[socket.socket] = []


class RunningClouds:
    """A folder of `ppodc init` whose clouds run; all that is asked of them goes by the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = dict(os.environ)

    def config(self, party: str) -> Path:
        """A party's configuration file."""
        name = party if party in ("cloud1", "cloud2", "operator") else "owner"
        return self.folder / party / f"{name}.toml"

    def members(self, least: int | None = None) -> Members:
        """Its owners, as a spec names them; all must upload unless `least` says fewer."""
        return deployment.members(self.folder, least)

    def command(
        self,
        party: str,
        *arguments: str | Path,
        quiet: bool = True,
        told: Callable[[str], None] | None = None,
    ) -> None:
        """`ppodc ARGUMENTS --config ...` as this party would; its screen is ours unless quiet.

        `told` gets each line that it prints.
        """
        process = subprocess.Popen(
            [*_PPODC, *arguments, "--config", self.config(party)],
            env=self._environment,
            stdout=subprocess.PIPE if told else subprocess.DEVNULL if quiet else None,
            stderr=subprocess.STDOUT if told else subprocess.PIPE,
            text=True,
            preexec_fn=end_with_starter,
        )
        try:
            said = ""
            if told is not None and process.stdout is not None:
                for said in process.stdout:
                    told(said.strip())
            said += process.communicate()[1] or ""
        except BaseException:
            _end(process)
            raise
        if process.returncode != 0:
            lines = said.strip().splitlines()
            raise PpodcError(lines[-1].removeprefix("error: ") if lines else "the job was killed")

    def begin(self, party: str, *arguments: str | Path) -> "subprocess.Popen[str]":
        """Start `command` as a process that runs until it is ended; its output is a pipe."""
        return subprocess.Popen(
            [*_PPODC, *arguments, "--config", self.config(party)],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=end_with_starter,
        )


class LocalPlatform(RunningClouds):
    """Both clouds, one Ray and all owners on this machine, while the `with` block lasts.

    Any number of jobs can use it, one after the other. Estimators take it as their `platform`.

    Parameters
    ----------
    folder : Path or None, default=None
        Keeps the files of every party; without one they are deleted at the end.
    owners : int or sequence of str, default=4
        How many owners, or their names.
    pairs : int, default=1
        Worker pairs. One suits up to 100,000 records; more use more cores.
    key_bits : int, default=2048
        Size of cloud 2's Paillier key.
    insecure_key_bits : int, default=0
        A smaller key for tests, which protects nothing; 0: none.

    Examples
    --------
    >>> from ppodc import LocalPlatform, SecureTotals
    >>> with LocalPlatform(owners=2, pairs=1) as platform:
    ...     totals = SecureTotals(bounds=(0, 10), least=1, platform=platform)
    ...     totals.fit([[[1], [2]], [[3]]]).sum_.tolist()
    [6.0]
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        owners: int | Sequence[str] = 4,
        pairs: int = 1,
        key_bits: int = 2048,
        insecure_key_bits: int = 0,
    ) -> None:
        if not isinstance(pairs, int) or pairs < 1:
            raise OptionError(
                f"pairs must be at least 1, not {pairs!r}: a job needs a worker pair."
            )
        deployment.owner_names(owners)  # refuses names that cannot be
        super().__init__(folder or Path())
        self._temporary = folder is None
        self.pairs = pairs
        self._options = (owners, key_bits, insecure_key_bits)
        self._stack = contextlib.ExitStack()
        self._running = False

    @property
    def owners(self) -> list[str]:
        """The names of its owners; an error if it does not run."""
        if not self._running:
            raise StateError(
                "the platform does not run: use it inside `with LocalPlatform() as p`."
            )
        given = self._options[0]
        return deployment.owner_names(given)

    def __deepcopy__(self, _memo: object) -> "LocalPlatform":
        return self  # clones of an estimator share it

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(None), ()  # a saved estimator comes back without it

    @named_if_missing()
    def __enter__(self) -> "LocalPlatform":
        owners, key_bits, insecure = self._options
        with contextlib.ExitStack() as stack:
            if self._temporary:
                home = stack.enter_context(tempfile.TemporaryDirectory(prefix="ppodc-"))
                self.folder = Path(home, "platform")
            resources = {"cloud1": self.pairs, "cloud2": self.pairs}
            ports = free_ports(4)
            # Beside Ray's start the keys are made and the services started, which need its address.
            ray = stack.enter_context(LocalRay.begin(resources, ports[3]))
            self._environment |= ray.environment
            deployment.create(
                self.folder,
                owners,
                cloud1_listen=f"tcp://127.0.0.1:{ports[0]}",
                cloud2_listen=f"tcp://127.0.0.1:{ports[1]}",
                cloud2_listen_control=f"tcp://127.0.0.1:{ports[2]}",
                key_bits=key_bits,
                insecure_key_bits=insecure,
                ray_address=ray.address,
                pairs=self.pairs,
                suites=("shares", "paillier"),
            )
            started = [(self._serve(stack, c), c) for c in ("cloud2", "cloud1")]
            for process, cloud in started:
                self._await(process, cloud)
            ray.ready()
            self._stack = stack.pop_all()
        self._running = True
        return self

    def __exit__(self, *_: object) -> None:
        self._running = False
        self._stack.close()

    def run(
        self,
        dataset: str,
        suite: str | None = None,
        *,
        pairs: int | None = None,
        quiet: bool = True,
        json_file: Path | None = None,
        told: Callable[[str], None] | None = None,
    ) -> None:
        """`ppodc run` on this many pairs, or on all, as the operator of cloud 1 would."""
        options = ["--pairs", str(pairs or self.pairs)]
        options += [] if suite is None else ["--suite", suite]
        options += [] if json_file is None else ["--json", str(json_file)]
        self.command("cloud1", "run", dataset, *options, quiet=quiet, told=told)

    def sealed(self, dataset: str) -> Sealed:
        """The sealed uploads of a dataset: this machine is cloud 1, too."""
        config = load(self.config("cloud1"), Cloud1Config)
        with Store.open(config.store, "cloud1") as store:
            return store.seals.sealed(dataset)

    def _serve(self, stack: contextlib.ExitStack, cloud: str) -> "subprocess.Popen[str]":
        """Start one cloud's service."""
        log = stack.enter_context((self.folder / cloud / "service.log").open("w"))
        process = subprocess.Popen(
            [*_PPODC, cloud, "serve", "--config", self.config(cloud)],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C is for us; we then stop the services in order
            preexec_fn=end_with_starter,  # which a kill would keep us from
        )
        stack.callback(_end, process)
        return process

    def _await(self, process: "subprocess.Popen[str]", cloud: str) -> None:
        """Wait until a cloud's port is open."""
        if process.stdout is None or not process.stdout.readline():
            said = (self.folder / cloud / "service.log").read_text().strip().splitlines()
            raise PpodcError(f"{cloud} did not start: {said[-1] if said else 'it was killed'}")


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def free_ports(count: int) -> list[int]:
    """Free ports of loopback, reserved for servers of ours while this process lives.

    Each stays bound, without listening. The system gives such a port to nobody who asks for any
    free one, but a server that sets SO_REUSEADDR, as all of ours do, can still bind it by number.
    """
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("127.0.0.1", 0))
    _RESERVED.extend(sockets)
    return [int(each.getsockname()[1]) for each in sockets]
