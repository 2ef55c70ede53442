"""The compose file: its commands exist, each party sees its own folder, nothing is exposed."""

import pytest
import yaml

from tests.cluster_configs.samples import CONFIGS, ppodc_command, resolve, version

FILE = CONFIGS / "compose" / "compose.yaml"
SERVICES = yaml.safe_load(FILE.read_text())["services"]
PARTIES = {"cloud1", "cloud2", "operator", "owner1", "owner2"}


def test_two_clouds_two_owners_and_an_operator():
    assert set(SERVICES) == PARTIES | {"init"}
    started = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert started == {"cloud1", "cloud2", "owner1", "owner2"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_runs_a_command_that_exists(name):
    service = SERVICES[name]
    lines = [service["command"]]
    if "healthcheck" in service:
        assert service["healthcheck"]["test"][0] == "CMD"
        lines.append(service["healthcheck"]["test"][1:])
    for program, *words in lines:
        assert program == "ppodc"
        assert all(isinstance(word, str) for word in words)
        resolve(ppodc_command(), words)


@pytest.mark.parametrize("name", sorted(PARTIES))
def test_a_party_sees_its_own_folder_alone(name):
    (mount,) = SERVICES[name]["volumes"]
    assert mount["source"] == f"./deployment/{name}"
    assert mount["bind"] == {"create_host_path": False}  # or Docker makes an empty one
    role = name.rstrip("12") if name.startswith("owner") else name
    configs = [word for word in SERVICES[name]["command"] if word.endswith(".toml")]
    assert configs == [f"{mount['target']}/{role}.toml"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_service_is_open_to_the_network_or_has_rights(name):
    service = SERVICES[name]
    assert "ports" not in service  # all listen on loopback
    assert service["network_mode"] == "host"
    assert service["cap_drop"] == ["ALL"]
    assert "privileged" not in service


def test_the_desks_have_ports_of_their_own_and_the_image_is_of_this_release():
    ports = [SERVICES[name]["command"][4] for name in ("owner1", "owner2")]
    assert len(set(ports)) == 2
    images = {service["image"] for service in SERVICES.values()}
    assert images == {f"ppodc:{version()}"}
    for service in SERVICES.values():
        assert (
            FILE.parent / service["build"]["context"] / service["build"]["dockerfile"]
        ).is_file()
