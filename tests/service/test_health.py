"""A service's figures for its operator: sums, nobody in particular."""

import json
import shutil
import socket
import urllib.error
import urllib.request
from contextlib import ExitStack

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ppodc.errors import ChannelError, RefusedError
from ppodc.local.platform import free_ports
from ppodc.service.config import Cloud1Config, OwnerConfig, load, peers
from ppodc.service.health import ask, health_endpoint, look, service_checks
from ppodc.service.messages import DatasetList, DatasetsAsk, UploadRef
from ppodc.service.metrics import ServiceMetrics
from ppodc.service.operations import owner_operations
from ppodc.service.store import Store
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from tests.client.two_gateways import new_deployment
from tests.harness.patience import LONG
from tests.service.data import make_spec


class Service:
    """Cloud 1's gateway with its endpoint, and an owner who calls."""

    def __init__(self, folder, stack: ExitStack):
        deployment = new_deployment(folder / "new", ["ann"])
        config = load(deployment.party("cloud1").config, Cloud1Config)
        self.store = stack.enter_context(Store.open(config.store, "cloud1"))
        self.store.datasets.create(make_spec())
        owner = load(deployment.party("ann").config, OwnerConfig)
        keys = CurveKeys.load(config.key)
        self.gateway = stack.enter_context(
            Gateway(config.listen, keys, peers(config), owner_operations(self.store))
        )
        self.client = stack.enter_context(
            Client.connect(
                owner.cloud1.endpoint,
                CurveKeys.load(owner.key),
                owner.cloud1.public_key.encode(),
                LONG,
            )
        )
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        gateways = {"owners": self.gateway}
        self.checks = service_checks(self.store, gateways)
        metrics = ServiceMetrics(self.store, gateways, folder / "pools")
        stack.enter_context(health_endpoint(self.address, metrics, self.checks))

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=LONG) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> dict[tuple[str, ...], float]:
        """Samples by name and values of labels."""
        _, text = self.get("/metrics")
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@pytest.fixture
def service(tmp_path):
    with ExitStack() as stack:
        yield Service(tmp_path, stack)


def test_a_service_that_works_is_alive_and_ready(service: Service):
    assert service.get("/live") == (200, "alive\n")
    status, body = service.get("/ready")
    assert status == 200
    assert json.loads(body) == {
        "ready": True,
        "checks": {"port for owners": "ok", "store": "ok", "disk": "ok"},
    }
    assert ask(service.address) == look(service.checks)
    assert service.get("/secrets")[0] == 404


def test_a_service_that_cannot_work_is_not_ready(service: Service):
    service.gateway.stop()
    status, body = service.get("/ready")
    assert status == 503
    assert json.loads(body)["checks"]["port for owners"] == "does not serve"
    assert not ask(service.address).ready


def test_a_full_disk_shows_before_uploads_fail(service: Service, monkeypatch):
    usage = shutil.disk_usage(service.store.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5 << 20))
    assert "Make room" in look(service.checks).checks["disk"]


def test_requests_are_counted_by_operation_and_outcome(service: Service):
    for _ in range(3):
        service.client.call("datasets", DatasetsAsk(""), reply=DatasetList)
    with pytest.raises(RefusedError):
        service.client.tell("commit", UploadRef("ab" * 16))
    with pytest.raises(RefusedError):
        service.client.tell("ann's secret name", UploadRef("ab" * 16))
    samples = service.metrics()
    assert samples["ppodc_requests_total", "owners", "datasets", "answered"] == 3
    assert samples["ppodc_requests_total", "owners", "commit", "not-found"] == 1
    assert samples["ppodc_requests_total", "owners", "unknown", "access"] == 1
    assert samples["ppodc_connections", "owners"] == 1


def test_what_the_store_has_is_told_as_sums_without_names(service: Service):
    store = service.store
    digest = store.datasets.spec("clinic").digest
    for number, rows in enumerate((3, 4)):
        upload = f"{number:032x}"
        store.uploads.begin("clinic", "ann", upload, rows)
        if number:
            store.uploads.put_chunk(upload, 0, np.zeros((rows, 3), np.uint64))
            store.uploads.commit(upload)
    store.figures.add(iterations=2, iteration_seconds=1.5, link_bytes=1000)
    store.figures.add(iterations=1, iteration_seconds=0.5, link_bytes=24)
    store.figures.put(ray_nodes=3)
    store.figures.put(ray_nodes=2)
    store.figures.add(ray_deaths=1)
    samples = service.metrics()
    wanted = {
        ("ppodc_jobs", "created"): 1,
        ("ppodc_jobs", "running"): 0,
        ("ppodc_uploads",): 1,
        ("ppodc_uploads_unfinished",): 1,
        ("ppodc_rows",): 4,
        ("ppodc_iteration_seconds_count",): 3,
        ("ppodc_iteration_seconds_sum",): 2.0,
        ("ppodc_link_sent_bytes_total",): 1024,
        ("ppodc_ray_nodes",): 2,
        ("ppodc_ray_deaths_total",): 1,
    }
    assert {name: samples[name] for name in wanted} == wanted
    assert samples["ppodc_store_bytes",] > 4 * 3 * 8
    text = service.get("/metrics")[1]
    assert not any(name in text for name in ("ann", "clinic", digest))


def test_a_service_with_a_driver_of_ray_tells_what_is_now(service: Service):
    service.store.figures.put(ray_nodes=3)
    seen = iter([(2, 0), (0, 1)])
    metrics = ServiceMetrics(service.store, {}, ray=lambda: next(seen))
    for nodes, deaths in ((2, 0), (0, 1)):
        lines = metrics.text().decode().splitlines()
        assert f"ppodc_ray_nodes {nodes:.1f}" in lines
        assert f"ppodc_ray_deaths_total {deaths:.1f}" in lines


def test_nobody_at_the_address_is_a_clear_error(service: Service):
    with pytest.raises(ChannelError, match="the service is down"):
        ask(f"127.0.0.1:{free_ports(1)[0]}")


def test_many_callers_who_say_nothing_keep_nobody_out(service: Service):
    host, _, port = service.address.partition(":")
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(60)
        ]
        for one in silent:
            one.settimeout(LONG)
        assert ask(service.address).ready
        assert {one.recv(1) for one in silent[:44]} == {b""}, "all but the latest are dropped"
        assert ask(service.address).ready
