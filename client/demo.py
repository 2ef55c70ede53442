"""`ppodc demo`: the whole platform on this machine, from upload to plot, on invented records."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from client.operator import Operator
from client.owner import Owner
from ppodc.errors import OptionError
from ppodc.kmeans.job import job_of
from ppodc.kmeans.reference import Trace, kmeans
from ppodc.kmeans.result import Result
from ppodc.local.platform import LocalPlatform
from ppodc.local.synthetic import clinic_spec, clinics
from ppodc.records.encode import encode
from ppodc.records.grid import decode_centres
from ppodc.spec import Spec

_MARK = ".ppodc-demo"  # only a folder that carries it is ever deleted
OWNERS = ("north", "south")
_NEXT = """
What to try next:
  ppodc demo --desk                   the same as pages in your browser: you play every party
  ppodc init trial --owners 2         a deployment of your own (docs/first_study.md)
  docs/tutorials/                     your own tables in five lines of Python
  ppodc sample-spec --kind linkage    find the people that two registers have in common"""


def demo(folder: Path, suite: str, rows: int, pairs: int) -> bool:
    """Whether the centres, sizes and labels equal plaintext k-means."""
    console = Console(highlight=False)
    spec = clinic_spec()
    records = clinics(rows)
    parts = np.array_split(records, len(OWNERS))
    make_folder(folder)
    console.print("starting both clouds, their Ray and their keys ...")
    with LocalPlatform(folder / "platform", owners=OWNERS, pairs=pairs) as platform:
        spec = replace(spec, owners=platform.members())
        with Operator.connect(platform.config("operator")) as operator:
            operator.create(spec)
        _upload(console, platform, spec, parts)
        platform.run(spec.name, suite, quiet=False)
        results = []
        for name in OWNERS:
            with Owner.connect(platform.config(name)) as owner:
                results.append(owner.result(spec.name))
    encoded = encode(records, spec.schema)
    job = job_of(spec)
    owners = np.repeat(np.arange(len(OWNERS)), [len(part) for part in parts])
    plain = kmeans(
        encoded, job.k, beta=job.beta, max_iter=job.max_iter, seed=job.seed,
        min_size=job.min_size, owners=owners,
    )  # fmt: skip
    labels = np.concatenate([result.labels_ for result in results])
    same = _identical(results, labels, plain, spec)
    _show(console, spec, results[0], plain, same=same)
    plot = folder / "clusters.png"
    _plot(plot, records, results[0])
    console.print(f"plot: {plot}")
    console.print(f"files of every party: {folder / 'platform'}")
    console.print(_NEXT)
    return same


def make_folder(folder: Path) -> None:
    """An empty folder for a demo; only one that an earlier demo has made is deleted."""
    if folder.exists():
        if any(folder.iterdir()) and not (folder / _MARK).exists():
            raise OptionError(f"{folder} exists and is no demo's; choose another with --folder.")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()


def _upload(
    console: Console, platform: LocalPlatform, spec: Spec, parts: list[NDArray[np.float64]]
) -> None:
    for name, part in zip(OWNERS, parts, strict=True):
        with Owner.connect(platform.config(name)) as owner:
            owner.upload(spec.name, part, spec=spec, progress=console.is_terminal)
        console.print(f"owner {name}: {len(part)} records shared between the clouds, gone home")


def _identical(results: list[Result], labels: NDArray[np.int64], plain: Trace, spec: Spec) -> bool:
    told = [plain.for_owner(number) for number in range(len(results))]
    return np.array_equal(labels, plain.labels) and all(
        np.array_equal(
            result.cluster_centers_,
            decode_centres(own.sums, own.sizes, spec.schema),
            equal_nan=True,
        )
        and np.array_equal(result.sizes_, own.sizes)
        and result.n_iter_ == plain.n_iter
        for result, own in zip(results, told, strict=True)
    )


def _show(console: Console, spec: Spec, result: Result, plain: Trace, *, same: bool) -> None:
    expected = decode_centres(plain.sums, plain.sizes, spec.schema)
    table = Table(title="Centres: this platform | plaintext k-means")
    for heading in ("cluster", "records", *spec.schema.names):
        table.add_column(heading, justify="right")
    for h, centre in enumerate(result.cluster_centers_):
        cells = [f"{a:.3f} | {b:.3f}" for a, b in zip(centre, expected[h], strict=True)]
        table.add_row(str(h), f"{result.sizes_[h]} | {plain.sizes[h]}", *cells)
    console.print(table)
    console.print(f"iterations: {result.n_iter_} | {plain.n_iter}")
    console.print(f"identical: {'yes' if same else 'NO'}")


def _plot(file: Path, records: NDArray[np.float64], result: Result) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    axes = result.plot(records)
    axes.set_title(f"{len(records)} records of {len(OWNERS)} owners, clustered on secret shares")
    pyplot.savefig(file, dpi=150)
    pyplot.close()
