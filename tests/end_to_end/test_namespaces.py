"""The federated samples on hosts of their own: two clouds and the owners in network namespaces.

The configurations are those of `cluster_configs/federated` but for keys and addresses; each cloud
has a Ray that was started as its README says. Skipped where namespaces may not be made.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ppodc.cluster.offspring import end_session
from ppodc.kmeans.reference import kmeans
from ppodc.service import deployment
from ppodc.spec import Spec
from tests.cluster_configs.samples import FEDERATED
from tests.end_to_end.two_services import make_spec, make_tables
from tests.harness.patience import LONG

ADDRESSES = {"cloud1": "10.77.0.1", "cloud2": "10.77.0.2", "owners": "10.77.0.3"}
HUB = "hub"
CONTROL, WORKERS = 7403, range(7500, 7508)
ESTABLISHED, TIME_WAIT = "01", "06"
_RAY = "from ray.scripts.scripts import main; main()"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Hosts:
    """Namespaces on one bridge; names carry a token, so that two runs do not meet."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(2)
        self._made: list[str] = []
        self._sessions: list[subprocess.Popen[bytes]] = []

    def name(self, host: str) -> str:
        return f"ppodc-{host}-{self._token}"

    def make(self) -> None:
        self._add(HUB)
        ip("-n", self.name(HUB), "link", "add", "bridge0", "type", "bridge")
        ip("-n", self.name(HUB), "link", "set", "bridge0", "up")
        for host, address in ADDRESSES.items():
            self._add(host)
            here, there = self.name(host), self.name(HUB)
            ends = ("type", "veth", "peer", "name", host, "netns", there)
            ip("link", "add", "eth0", "netns", here, *ends)
            ip("-n", there, "link", "set", host, "master", "bridge0", "up")
            ip("-n", here, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", here, "link", "set", "eth0", "up")
            ip("-n", here, "link", "set", "lo", "up")

    def start(self, host: str, command: list[str], environment: dict[str, str], log: Path):
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.name(host), *command],
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )
        self._sessions.append(process)
        return process

    def ppodc(self, host: str, *arguments: str | Path, environment: dict[str, str] | None = None):
        done = subprocess.run(
            ["ip", "netns", "exec", self.name(host), *ppodc(*map(str, arguments))],
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=LONG,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def connections(self, host: str) -> set[tuple[str, int, int]]:
        """(other host, own port, its port) of what is established, or was a moment ago."""
        pid = next(p.pid for p in self._sessions if self._is_in(p.pid, host))
        by_address = {_hexadecimal(address): name for name, address in ADDRESSES.items()}
        found = set()
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, state, *_ = line.split()
            address, _, port = remote.partition(":")
            if state in (ESTABLISHED, TIME_WAIT) and by_address.get(address, host) != host:
                own = int(local.partition(":")[2], 16)
                found.add((by_address[address], own, int(port, 16)))
        return found

    def remove(self) -> None:
        for process in reversed(self._sessions):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            end_session(process.pid)
            process.wait()
            process.stdout.close()
        for host in self._made:
            ip("netns", "del", host)

    def _add(self, host: str) -> None:
        ip("netns", "add", self.name(host))
        self._made.append(self.name(host))

    def _is_in(self, pid: int, host: str) -> bool:
        mine = os.stat(f"/proc/{pid}/ns/net").st_ino
        return mine == os.stat(f"/run/netns/{self.name(host)}").st_ino


def _hexadecimal(address: str) -> str:
    return "".join(f"{int(part):02X}" for part in reversed(address.split(".")))


def ppodc(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ppodc.cli", *arguments]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    hosts = Hosts()
    try:
        try:
            hosts.make()
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("network namespaces may not be made here")
        yield hosts
    finally:
        hosts.remove()


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: Ray's sockets allow no other."""
    path = Path(tempfile.mkdtemp(prefix="pns-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def configure(folder: Path) -> deployment.Deployment:
    """The sample files in place of what `ppodc init` wrote; the keys are its."""
    made = deployment.create(folder, ["north", "south"], suites=("shares", "paillier"))
    samples = {"cloud1": "cloud1/cloud1.toml", "cloud2": "cloud2/cloud2.toml"}
    samples |= {"north": "owner.toml", "south": "owner.toml", "operator": "owner.toml"}
    for party, sample in samples.items():
        text = (FEDERATED / sample).read_text()
        for cloud in ("cloud1", "cloud2"):
            text = text.replace(f"gateway.{cloud}.example", ADDRESSES[cloud])
        text = text.replace("203.0.113.128/25", ADDRESSES["cloud2"])
        if party in ("south", "operator"):
            text = text.replace("north", party)
        if party == "operator":
            text = text.replace('role = "owner"', 'role = "operator"')
        made.party(party).config.write_text(_with_keys(text, folder))
    return made


def _with_keys(text: str, folder: Path) -> str:
    def key(match: re.Match[str]) -> str:
        return f'"{(folder / match[1] / "keys" / f"{match[1]}.public").read_text().strip()}"'

    return re.sub(r'"REPLACE\.WITH\.public\.key\.of\.(\w+)\.+"', key, text)


def start_cloud(hosts: Hosts, cloud: str, folder: Path, config: Path) -> dict[str, str]:
    """Its Ray and its service; what a process of this cloud needs in its environment."""
    place = folder / f"ray-{cloud}"
    place.mkdir()
    token = place / "token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(32))
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    address = ADDRESSES[cloud]
    head = [sys.executable, "-c", _RAY, "start", "--head", "--block"]
    head += [f"--node-ip-address={address}", "--port=6379", "--include-dashboard=false"]
    head += ["--num-cpus=2", f'--resources={{"{cloud}": 2}}', f"--temp-dir={place}/r"]
    head += ["--disable-usage-stats", "--object-store-memory=100000000"]
    started = hosts.start(cloud, head, environment, folder / f"{cloud}.ray.log")
    for line in started.stdout:
        if b"--block" in line:  # it now waits
            break
    threading.Thread(target=started.stdout.read, daemon=True).start()
    environment["RAY_ADDRESS"] = f"{address}:6379"
    service = ppodc(cloud, "serve", "--config", str(config))
    served = hosts.start(cloud, service, environment, folder / f"{cloud}.log")
    assert b"listens" in served.stdout.readline(), (folder / f"{cloud}.log").read_text()
    return environment


def test_samples_work_between_hosts_over_the_documented_ports_alone(hosts: Hosts, folder: Path):
    made = configure(folder / "parties")
    environments = {
        cloud: start_cloud(hosts, cloud, folder, made.party(cloud).config)
        for cloud in ("cloud2", "cloud1")
    }
    tables = make_tables(17, (13, 11), 2)
    owners = deployment.members(made.folder)
    spec = replace(make_spec("clinic", 2, k=3, labels=False, min_size=1), owners=owners)
    file = folder / "spec.toml"
    file.write_text(spec.to_toml())
    configs = {party: ("--config", made.party(party).config) for party in ("operator", "cloud1")}
    create = ("dataset", "create", file, "--accept-single-records")
    hosts.ppodc("owners", *create, *configs["operator"])
    seen: set[tuple[str, str, int, int]] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for cloud in ("cloud1", "cloud2"):
                seen.update((cloud, *each) for each in hosts.connections(cloud))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        for owner, table in zip(("north", "south"), tables, strict=True):
            np.savetxt(folder / f"{owner}.csv", table, delimiter=",")
            config = ("--config", made.party(owner).config)
            data = (folder / f"{owner}.csv", "--no-header", "--spec", file)
            hosts.ppodc("owners", "upload", "clinic", *data, *config)
        environment = environments["cloud1"]
        hosts.ppodc("cloud1", "run", "clinic", "--pairs", "2", *configs["cloud1"],
                    environment=environment)  # fmt: skip
        config = ("--config", made.party("south").config)
        hosts.ppodc("owners", "result", "clinic", "--json", folder / "r.json", *config)
    finally:
        over.set()
        watching.join()
    check_result(json.loads((folder / "r.json").read_text()), spec, tables)
    check_ports(seen)


def check_result(result: dict, spec: Spec, tables: list[np.ndarray]) -> None:
    job = spec.job
    trace = kmeans(np.concatenate(tables).astype(np.int64), job.k, beta=job.beta,
                   max_iter=job.max_iter, seed=job.seed, min_size=job.min_size)  # fmt: skip
    assert result["sizes"] == trace.sizes.tolist()
    assert result["n_iter"] == trace.n_iter
    assert np.array_equal(result["cluster_centers"], trace.sums / trace.sizes[:, None])


def check_ports(seen: set[tuple[str, str, int, int]]) -> None:
    """Owners call 7401 and 7402; cloud 1 calls 7403 and workers' ports; nobody calls otherwise."""
    of_owners = {(cloud, port) for cloud, other, port, _ in seen if other == "owners"}
    assert of_owners <= {("cloud1", 7401), ("cloud2", 7402)}  # a short call may not have been seen
    called = {port for cloud, other, _, port in seen if (cloud, other) == ("cloud1", "cloud2")}
    assert CONTROL in called
    assert called - {CONTROL}
    assert called <= {CONTROL, *WORKERS}
