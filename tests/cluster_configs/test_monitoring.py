"""Samples for monitors and systemd name what the program really has."""

import json
import re
import shlex

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ppodc.service.metrics import ServiceMetrics
from ppodc.service.store import Store
from tests.cluster_configs.samples import CLOUDS, CONFIGS, FEDERATED, config, parse, ppodc_command

MONITORING, SYSTEMD = CONFIGS / "monitoring", CONFIGS / "systemd"
HEALTH = "http://127.0.0.1:9464"


@pytest.fixture
def metrics(tmp_path) -> set[str]:
    with Store.open(tmp_path / "store", "cloud1") as store:
        text = ServiceMetrics(store, {}, tmp_path).text().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    names = set(families)
    for name, family in families.items():
        endings = {"counter": ("_total",), "summary": ("_sum", "_count")}.get(family.type, ())
        names |= {name + ending for ending in endings}
    return names


def named(text: str) -> set[str]:
    return set(re.findall(r"ppodc_[a-z_]+", text))


def test_every_figure_is_on_the_dashboard_and_none_else(metrics):
    board = json.loads((MONITORING / "grafana_dashboard.json").read_text())
    shown = named(" ".join(p["targets"][0]["expr"] for p in board["panels"]))
    assert shown <= metrics
    stems = {re.sub(r"_(total|sum|count)$", "", name) for name in metrics}
    left_out = {"ppodc_connections", "ppodc_bytes_inside", "ppodc_uploads_unfinished"}
    assert stems - {re.sub(r"_(total|sum|count)$", "", name) for name in shown} == left_out


def test_alerts_are_about_figures_that_exist(metrics):
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    used = set().union(*(named(rule["expr"]) for rule in rules))
    assert used
    assert used <= metrics


def test_prometheus_asks_where_the_samples_listen():
    scrape = yaml.safe_load((MONITORING / "prometheus.yml").read_text())["scrape_configs"][0]
    targets = {f"http://{target}" for target in scrape["static_configs"][0]["targets"]}
    assert targets == {HEALTH}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_probes_ask_where_the_service_listens(cloud):
    assert f"http://{config(FEDERATED / cloud / f'{cloud}.toml').health}" == HEALTH
    manifest = (FEDERATED / cloud / "gateway.yaml").read_text()
    assert set(re.findall(r"http://[\d.:]+", manifest)) == {HEALTH}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_units_run_commands_that_exist(cloud):
    unit = (SYSTEMD / f"ppodc-{cloud}.service").read_text()
    command = shlex.split(re.search(r"^ExecStart=(.+)$", unit, re.MULTILINE)[1])
    assert parse(ppodc_command(), command[1:]).params["log"] == "json"
