"""A service's figures in Prometheus' form: what an operator of one cloud watches.

Who learns what: whoever reaches the endpoint, which listens on loopback alone, learns sums over
everything this cloud has: requests by operation and outcome, uploads, rows, jobs by state, seconds
and bytes of iterations, supplies on disk. This cloud knows all of it by the leakage contract. No
name of an owner or dataset is among it; where there is only one of them, the sums are its own.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from ppodc.crypto.single_use import stock
from ppodc.service.job_state import JobState
from ppodc.service.store import Store
from ppodc.transport.gateway import Gateway

_DISK_SECONDS = 30.0  # for which the size of the store counts as known


class ServiceMetrics(Collector):
    """Reads gateways, store and pools anew whenever it is asked."""

    def __init__(
        self,
        store: Store,
        gateways: Mapping[str, Gateway],
        pools: Path | None = None,
        ray: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        """`gateways` by whom they serve ("owners", "control").

        `ray`: (living nodes, deaths so far) where the service has a driver; without it they are as
        jobs, which have their own, have noted them in the store.
        """
        self._store, self._gateways, self._pools, self._ray = store, gateways, pools, ray
        self._size = (-_DISK_SECONDS, 0)

    def text(self) -> bytes:
        """All figures as Prometheus reads them."""
        registry = CollectorRegistry()
        registry.register(self)
        return bytes(generate_latest(registry))

    def collect(self) -> Iterable[Metric]:
        yield from self._of_gateways()
        yield from self._of_store()
        yield from self._of_jobs()
        if self._pools is not None:
            yield self._of_pools(self._pools)

    def _of_gateways(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "ppodc_requests",
            "Requests by operation and outcome: answered, or a refusal's code.",
            labels=["door", "operation", "outcome"],
        )
        connections = GaugeMetricFamily(
            "ppodc_connections", "Connections of callers.", labels=["door"]
        )
        inside = GaugeMetricFamily(
            "ppodc_bytes_inside", "Bytes of callers on their way in or out.", labels=["door"]
        )
        for door, gateway in self._gateways.items():
            for (operation, outcome), number in sorted(gateway.outcomes().items()):
                requests.add_metric([door, operation or "unknown", outcome], number)
            present, held = gateway.inside()
            connections.add_metric([door], present)
            inside.add_metric([door], held)
        return requests, connections, inside

    def _of_store(self) -> Iterable[Metric]:
        overview = self._store.figures.overview()
        jobs = GaugeMetricFamily("ppodc_jobs", "Datasets by state of their job.", labels=["state"])
        for state in JobState:
            jobs.add_metric([state.value], overview.jobs.get(state.value, 0))
        free = shutil.disk_usage(self._store.folder).free
        return (
            jobs,
            _gauge("ppodc_uploads", "Finished uploads that are kept.", overview.uploads),
            _gauge("ppodc_uploads_unfinished", "Uploads that go on.", overview.unfinished),
            _gauge("ppodc_rows", "Records of finished uploads.", overview.rows),
            _gauge("ppodc_store_bytes", "Size of the store's folder.", self._store_bytes()),
            _gauge("ppodc_disk_free_bytes", "Room left where the store is.", free),
        )

    def _of_jobs(self) -> Iterable[Metric]:
        counted = self._store.figures.all()
        seconds = SummaryMetricFamily(
            "ppodc_iteration_seconds",
            "Protocol work of finished iterations: of each step its slowest pair.",
            count_value=int(counted.get("iterations", 0)),
            sum_value=counted.get("iteration_seconds", 0.0),
        )
        link = CounterMetricFamily(
            "ppodc_link_sent_bytes",
            "Bytes this cloud's workers sent to the other's in finished steps.",
            value=counted.get("link_bytes", 0),
        )
        failed = CounterMetricFamily(
            "ppodc_worker_failures",
            "Workers that failed and were replaced or given up.",
            value=counted.get("worker_failures", 0),
        )
        return seconds, link, failed, *self._of_ray(counted)

    def _of_ray(self, counted: Mapping[str, float]) -> Iterable[Metric]:
        noted = counted.get("ray_nodes", 0), counted.get("ray_deaths", 0)
        nodes, deaths = noted if self._ray is None else self._ray()
        yield _gauge(
            "ppodc_ray_nodes",
            "Living nodes of this cloud's Ray: now at cloud 2, in the last iteration at cloud 1.",
            nodes,
        )
        yield CounterMetricFamily(
            "ppodc_ray_deaths", "Times that this cloud's Ray died and was given up.", value=deaths
        )

    def _of_pools(self, pools: Path) -> Metric:
        supplies = GaugeMetricFamily(
            "ppodc_offline_stock_rows",
            "Randomness made ahead that lies on this machine.",
            labels=["kind"],
        )
        for kind, rows in sorted(stock(pools).items()):
            supplies.add_metric([kind], rows)
        return supplies

    def _store_bytes(self) -> int:
        when, size = self._size
        if time.monotonic() - when >= _DISK_SECONDS:
            size = sum(_size(path) for path in self._store.folder.rglob("*"))
            self._size = time.monotonic(), size
        return size


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # deleted meanwhile
        return 0


def _gauge(name: str, text: str, value: Any) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
