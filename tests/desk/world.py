"""Both clouds with real gateways and real jobs, whose workers are threads; owners with tables.

For each kind of job a small study: its spec, the tables of two owners, and the result of plaintext.
"""

import csv
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from client.desk.table_file import wanted
from client.operator import Operator
from client.owner import Owner
from cloud1.collector import collect
from cloud2.follower import Follower
from cloud2.service import control_operations
from master.cloud2_client import Cloud2Client
from master.driver import JobResources
from master.job import run_job
from ppodc.local.platform import free_ports
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, Cloud2Config, CollectorConfig, load, owners_of, peers
from ppodc.service.operations import owner_operations
from ppodc.service.store import Store
from ppodc.spec import Spec
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from tests.harness.thread_workers import ThreadWorkers

OWNERS = ("north", "south")


@dataclass
class World:
    """A running deployment of `ppodc init`."""

    home: deployment.Deployment
    run: Callable[[str], Any]
    stores: list[Store]

    def config(self, name: str) -> Path:
        return self.home.party(name).config

    def create(self, spec: Spec) -> Spec:
        spec = replace(spec, owners=deployment.members(self.home.folder))
        with Operator.connect(self.config("operator")) as operator:
            operator.create(spec)
        return spec

    def owner(self, name: str) -> Owner:
        return Owner.connect(self.config(name))


def _nothing(_: Any) -> None:
    """Threads need nothing put into them."""


@contextmanager
def two_clouds(folder: Path):
    ports = [f"tcp://127.0.0.1:{port}" for port in free_ports(3)]
    made = deployment.create(
        folder,
        OWNERS,
        cloud1_listen=ports[0],
        cloud2_listen=ports[1],
        cloud2_listen_control=ports[2],
    )
    first = load(made.party("cloud1").config, Cloud1Config)
    second = load(made.party("cloud2").config, Cloud2Config)
    with ExitStack() as stack:
        stores = [
            stack.enter_context(Store.open(config.store, role))
            for config, role in ((first, "cloud1"), (second, "cloud2"))
        ]
        follower = Follower(stores[1], second, ThreadWorkers(_nothing))
        stack.callback(follower.stop)
        known = owners_of(second)
        others = {key: peer for key, peer in peers(second).items() if key not in known}
        for listen, config, who, operations in (
            (first.listen, first, owners_of(first), owner_operations(stores[0])),
            (second.listen, second, known, owner_operations(stores[1])),
            (second.listen_control, second, others, control_operations(follower)),
        ):
            stack.enter_context(Gateway(listen, CurveKeys.load(config.key), who, operations))
        means = JobResources(
            lambda _: nullcontext(ThreadWorkers(_nothing)),
            lambda: Cloud2Client.connect(first),
            lambda: Store.open(first.store, "cloud1"),
        )
        yield World(made, lambda name: run_job(first, name, pairs=1, means=means), stores)


@contextmanager
def collector(folder: Path):
    (port,) = free_ports(1)
    made = deployment.create_local(folder, OWNERS, listen=f"tcp://127.0.0.1:{port}")
    config = load(made.party("collector").config, CollectorConfig)
    with (
        Store.open(config.store, "cloud1") as store,
        Gateway(
            config.listen, CurveKeys.load(config.key), owners_of(config), owner_operations(store)
        ),
    ):
        yield World(made, lambda name: collect(store, name, lambda *_: None), [store])


# -------------------------------------------------------------------------------------- studies

COLUMNS = """
[schema]
ub = 1000
columns = [
    { name = "age", low = 0, high = 110 },
    { name = "pressure", low = 60, high = 220 },
    { name = "glucose", low = 1, high = 40 },
]
"""
JOINED = """
[schema]
columns = [
    { name = "born", low = 1900, high = 2030, use = "link" },
    { name = "pressure", low = 60, high = 220, held_by = ["north"] },
    { name = "glucose", low = 1, high = 40, held_by = ["south"] },
    { name = "surname", text = "words", longest = 12 },
]
[join]
relation = "1:1"
anchor = "north"
least = 2
rule = "exact"
columns = ["born", "surname"]
"""
SPECS = {
    "kmeans": 'name = "rehab"\n'
    + COLUMNS
    + "[job]\nk = 3\nseed = 1\nlabels = true\nmin_size = 3\n",
    "several-k": 'name = "choose-k"\n'
    + COLUMNS
    + "[job]\nk = [2, 3, 4]\nseed = 1\ninertia = true\nlabels = true\nmin_size = 2\n",
    "private-kmeans": 'name = "sepsis"\n'
    + COLUMNS
    + "[job]\nk = 2\nseed = 1\n[privacy]\nepsilon = 4.0\ndelta = 1e-6\n",
    "totals": 'name = "falls"\n' + COLUMNS + '[job]\nkind = "totals"\nvariance = true\nleast = 2\n',
    "linkage": """name = "shared"
[schema]
columns = [
    { name = "born", low = 1900, high = 2030 },
    { name = "surname", text = "words", longest = 12 },
]
[job]
kind = "linkage"
rule = "fields"
threshold = 2
fields = [
    { column = "surname", compare = "edit", max = 1, weight = 1 },
    { column = "born", compare = "numeric", max = 0, weight = 1 },
]
blocks = "none"
output = "links"
max_links = 1
""",
    "join": 'name = "joined"\n' + JOINED + "[job]\nk = 2\nseed = 1\nlabels = true\nmin_size = 2\n",
    "join-totals": 'name = "joined-totals"\n'
    + JOINED
    + '[job]\nkind = "totals"\nvariance = true\ncross = true\n',
    "local": 'name = "reports"\n'
    + COLUMNS
    + '[job]\nkind = "local"\nmechanism = "codebook"\nepsilon = 4.0\nk = 2\npoints = 16\n'
    "seed = 1\n",
}


def spec_of(kind: str) -> Spec:
    return Spec.loads(SPECS[kind])


def patients(rows: int, case: int) -> np.ndarray:
    """Three groups of invented people: age, pressure, glucose."""
    g = np.random.default_rng(case)
    middles = np.array([[30.0, 110.0, 5.0], [60.0, 140.0, 7.0], [80.0, 170.0, 14.0]])
    values = middles[g.integers(0, 3, rows)] + g.normal(0, 1, (rows, 3)) * [6, 8, 1.2]
    return np.round(np.clip(values, (0, 60, 1), (110, 220, 40)), 1)


def people(rows: int, owner: int) -> list[list[str]]:
    """Registers of two owners, of which every third person stands in both."""
    syllables = ("ba", "do", "ki", "lu", "me", "no", "ra", "su", "ti", "ve")

    def name(number: int) -> str:
        return "".join(syllables[int(digit)] for digit in f"{number:03d}")

    return [
        [str(1930 + i % 60), name(i * 7 % 997)] if i % 3 == 0 else
        [str(1930 + (i + owner) % 60), name((i * 13 + 400 * owner + 1) % 997)]
        for i in range(rows)
    ]  # fmt: skip


def rows_of(kind: str, owner: int, rows: int = 24) -> list[list[str]]:
    if kind == "linkage":
        return people(rows, owner)
    if kind.startswith("join"):
        values = patients(rows, owner)[:, 1 + owner]
        return [
            [born, repr(float(x)), surname]
            for (born, surname), x in zip(people(rows, owner), values, strict=True)
        ]
    return [[repr(float(x)) for x in row] for row in patients(rows, owner)]


def names_of(spec: Spec, owner: int = 0) -> list[str]:
    """The columns that an owner has."""
    return [column.name for column in wanted(spec, OWNERS[owner])]


def write_table(
    path: Path, spec: Spec, rows: list[list[str]], *, ids: bool = True, owner: int = 0
) -> Path:
    """As a hospital has it: with an id and a remark, semicolons and other spellings of names."""
    names = names_of(spec, owner)
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        out = csv.writer(file, delimiter=";")
        out.writerow([*(["case_no"] if ids else []), *(name.upper() for name in names), "remark"])
        for number, row in enumerate(rows):
            cells = [cell.replace(".", ",") for cell in row]
            out.writerow([*([f"N-{number}"] if ids else []), *cells, "secret remark"])
    return path
