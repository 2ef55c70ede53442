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


def settings(text: str) -> dict[str, str]:
    """The lines of a unit; of those that stand there twice, the last."""
    return dict(re.findall(r"^(\w+)=(.+)$", text, re.MULTILINE))


@pytest.mark.parametrize("cloud", CLOUDS)
def test_units_run_commands_that_exist(cloud):
    unit = (SYSTEMD / f"ppodc-{cloud}.service").read_text()
    at_home = unit + (SYSTEMD / f"ppodc-{cloud}.service.d" / "home.conf").read_text()
    for text in (unit, at_home):
        command = shlex.split(settings(text)["ExecStart"])
        parameters = parse(ppodc_command(), command[1:]).params
        assert parameters["log"] == "json"
        folder = str(parameters["config"].parent)
        assert settings(text)["WorkingDirectory"] == folder
        assert folder in settings(text)["ReadWritePaths"].split()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_units_have_a_place_for_compiled_kernels(cloud):
    unit = settings((SYSTEMD / f"ppodc-{cloud}.service").read_text())
    assert unit["ProtectSystem"] == "strict"
    assert unit["Environment"] == f"NUMBA_CACHE_DIR=/var/cache/{unit['CacheDirectory']}"
    assert unit["CacheDirectoryMode"] == "0700"


def test_the_unit_of_cloud_2_reaches_the_ray_of_the_sample():
    unit = settings((SYSTEMD / "ppodc-cloud2.service.d" / "home.conf").read_text())
    files = re.search(
        r"--temp-dir=\$HOME/(\w+)/files", (FEDERATED / "cloud2" / "ray_up.yaml").read_text()
    )
    assert files is not None
    assert f"/home/ppodc/{files[1]}" in unit["ReadWritePaths"].split()
    assert unit["ProtectHome"] == "read-only"
    assert unit["Environment"] == "RAY_AUTH_MODE=token"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_there_is_one_unit_of_a_cloud(cloud):
    readme = (FEDERATED / cloud / "README.md").read_text()
    assert "ExecStart" not in readme
    assert "../../systemd/README.md" in readme
