"""Configurations and new deployments: typed, strict, commented, and private."""

import itertools
import re
import stat
import tomllib

import pytest

from master.driver import cloud2_key
from ppodc.crypto.paillier_keys import load_public, load_secret, load_share
from ppodc.errors import AccessError, InputError
from ppodc.service.addresses import check_worker_endpoint
from ppodc.service.config import Cloud1Config, Cloud2Config, OwnerConfig, load, peers
from ppodc.service.config_text import save
from ppodc.service.deployment import create, make_key, split_key
from ppodc.transport.call_server import Peer
from ppodc.transport.curve_keys import CurveKeys


@pytest.fixture
def deployment(tmp_path):
    names, suites = ["ann", "bob.b"], ("shares", "paillier")
    return create(tmp_path / "new", names, insecure_key_bits=256, pairs=3, suites=suites)


KINDS = {"cloud1": Cloud1Config, "cloud2": Cloud2Config, "operator": OwnerConfig}


def test_every_party_can_load_its_folder(deployment):
    names = [party.name for party in deployment.parties]
    assert names == ["cloud1", "cloud2", "operator", "ann", "bob.b"]
    for party in deployment.parties:
        config = load(party.config, KINDS.get(party.name, OwnerConfig))
        assert CurveKeys.load(config.key).public
        for path in party.secrets:
            assert path.is_relative_to(party.folder)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_parties_know_each_other(deployment):
    first = load(deployment.party("cloud1").config, Cloud1Config)
    second = load(deployment.party("cloud2").config, Cloud2Config)
    owner = load(deployment.party("bob.b").config, OwnerConfig)
    key = CurveKeys.load(owner.key).public
    assert peers(first)[key] == peers(second)[key] == Peer("owner", "bob.b", key.decode())
    assert peers(second)[CurveKeys.load(first.key).public].role == "cloud1"
    assert owner.cloud1.public_key.encode() == CurveKeys.load(first.key).public
    assert owner.cloud2.public_key == first.cloud2.public_key
    assert (first.pairs, first.insecure_key_bits, second.insecure_key_bits) == (3, 256, 256)
    public = load_public(first.paillier_public, allow_insecure=True)
    assert load_secret(second.paillier_secret, allow_insecure=True).public == public


def test_a_split_paillier_key_leaves_a_share_at_each_cloud_and_the_key_nowhere(tmp_path):
    made = create(
        tmp_path / "new", 1, insecure_key_bits=256, suites=("shares", "paillier"), split_key=True
    )
    names = {path.name for path in made.folder.rglob("paillier*")}
    assert names == {"paillier.share"}
    first = load(made.party("cloud1").config, Cloud1Config)
    second = load(made.party("cloud2").config, Cloud2Config)
    assert first.paillier_share in made.party("cloud1").secrets
    assert second.paillier_share in made.party("cloud2").secrets
    shares = [
        load_share(config.paillier_share, cloud, allow_insecure=True)
        for config, cloud in ((first, 1), (second, 2))
    ]
    assert shares[0].public == shares[1].public
    assert cloud2_key(first) == (int(shares[0].public.n), 256)
    path = made.party("cloud2").config
    path.write_text(f'paillier_secret = "keys/paillier.secret"\n{path.read_text()}')
    with pytest.raises(InputError, match="two keys"):
        load(path, Cloud2Config)


def test_dealing_a_key_writes_two_files_and_never_over_another(tmp_path):
    files = (tmp_path / "a" / "1", tmp_path / "b" / "2")
    fingerprint = split_key(files, 2048)
    for file, cloud in zip(files, (1, 2), strict=True):
        assert load_share(file, cloud).public.fingerprint == fingerprint
    with pytest.raises(InputError, match="there already"):
        split_key((files[0], tmp_path / "c"), 2048)
    with pytest.raises(InputError, match="two files"):
        split_key((tmp_path / "c", tmp_path / "c"), 2048)


def test_without_the_paillier_suite_there_is_no_paillier_key(tmp_path):
    made = create(tmp_path / "new", 1)
    assert not list(made.folder.rglob("paillier*"))
    path = made.party("cloud2").config
    assert load(path, Cloud2Config).paillier_secret is None
    path.write_text(path.read_text().replace('["shares"]', '["shares", "paillier"]'))
    with pytest.raises(InputError, match="set paillier_secret"):
        load(path, Cloud2Config)


def test_each_secret_is_in_one_folder_only(deployment):
    for party in deployment.parties:
        for path in party.secrets:
            secret = path.read_bytes()
            holders = [p for p in deployment.folder.rglob("*") if p.is_file()]
            assert [p for p in holders if p.read_bytes() == secret] == [path]
            assert str(path) in deployment.describe()


def test_folders_are_private(deployment):
    for path in [deployment.folder, *deployment.folder.rglob("*")]:
        if path.is_dir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_every_key_has_a_comment(deployment):
    for party in deployment.parties:
        lines = party.config.read_text().splitlines()
        assert lines[0].startswith("# ppodc: ")
        table = ""
        for before, line in itertools.pairwise(lines):
            table = line if line.startswith("[") else table
            if re.match(r"[\w\"]", line) and table not in ("[owners]", "[operators]"):
                assert before.startswith("# "), line
        tomllib.loads(party.config.read_text())


def test_a_written_configuration_loads_as_it_was(deployment, tmp_path):
    path = deployment.party("cloud2").config
    config = load(path, Cloud2Config)
    save(path, config)
    assert load(path, Cloud2Config) == config


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("pairs = 3", 'pairs = "3"', "pairs must be a whole number, not a text in quotes. pairs: "),
        ("pairs = 3", "pairs = 0", "pairs must be at least 1. pairs: Worker pairs of a job"),
        ("pairs = 3", "pears = 3", "there is no key 'pears'; the nearest is 'pairs'"),
        ("pairs = 3", "pairs = 3\nx = 1", "there is no key 'x'. Known keys: "),
        ("[cloud2]", "[cloud2]\nport = 1", "there is no key 'port' in [cloud2]. Known keys: endpo"),
        ("pairs = 3", "pairs = 3\npairs = 3", "TOML"),
        ("tcp://127.0.0.1:7401", "127.0.0.1:7401", "listen: '127.0.0.1:7401' must begin with tcp"),
        ("tcp://127.0.0.1:7401", "tcp://127.0.0.1", "listen: 'tcp://127.0.0.1' is not tcp://HOST"),
        ("tcp://127.0.0.1:7403", "tcp://127.0.0.1:99999", "cloud2.endpoint: 'tcp://127.0.0.1:99"),
        ('role = "cloud1"', 'role = "cloud2"', "is the configuration of cloud 2; this needs that"),
        ('role = "cloud1"', 'role = "clod1"', 'cloud 1: role = "cloud1"'),
        ('store = "store"', "store = 3", "path"),
        ('store = "store"', "", "the key store is missing. store: Folder of shares"),
        ('health = ""', 'health = "127.0.0.1:99999"', "health: '127.0.0.1:99999' names a port"),
        ('health = ""', 'health = "0.0.0.0:9464"', "health: '0.0.0.0:9464' is not 127.0.0.1"),
        ("[owners]", "[owners]\neve = 'short'", "a value in [owners] must be a public key: the 40"),
        ("[auditors]", "[auditors]\naud = 3", "a value in [auditors] must be a text in quotes"),
        ("[cloud2]", "[cloud3]", "cloud"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(deployment, old, new, reason):
    path = deployment.party("cloud1").config
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=re.escape(reason)) as caught:
        load(path, Cloud1Config)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("127.0.0.1:7403", "127.0.0.1:7402", "must be two ports"),
        ("127.0.0.1:7403", "*:7402", "must be two ports"),
        ("worker_ports = [0, 0]", "worker_ports = [0, 99999]", "worker_ports: ports go from 0"),
        ("worker_ports = [0, 0]", "worker_ports = [9, 8]", "worker_ports: ports go from 0"),
    ],
)
def test_ports_that_cloud_2_cannot_have(deployment, old, new, reason):
    path = deployment.party("cloud2").config
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=re.escape(reason)):
        load(path, Cloud2Config)


def test_two_names_for_one_key_are_refused(deployment):
    path = deployment.party("cloud1").config
    config = load(path, Cloud1Config)
    path.write_text(path.read_text() + f'eve = "{config.owners["ann"]}"\n')
    with pytest.raises(InputError, match="same public key"):
        load(path, Cloud1Config)


def test_files_that_are_no_configuration(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "none.toml", OwnerConfig)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        load(tmp_path / "bytes.toml", OwnerConfig)


def test_paths_are_relative_to_the_file(deployment, tmp_path):
    moved = deployment.folder.rename(tmp_path / "moved")
    config = load(moved / "ann" / "owner.toml", OwnerConfig)
    assert config.uploads == moved / "ann" / "uploads"
    assert CurveKeys.load(config.key)


@pytest.mark.parametrize("owners", [0, [], ["a", "a"], ["cloud1"], ["../x"], [""], ["a/b"]])
def test_impossible_owners_are_refused(tmp_path, owners):
    with pytest.raises(InputError):
        create(tmp_path / "new", owners, insecure_key_bits=256)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cloud1_listen": "foo"}, "'foo' must begin with tcp://"),
        ({"cloud2_listen": "tcp://127.0.0.1:99999"}, "port above 65535"),
        ({"cloud2_listen": "tcp://127.0.0.1:7401"}, "a port of its own"),
        ({"cloud2_listen": "tcp://127.0.0.1:7403"}, "a port of its own"),
        ({"cloud1_listen": "tcp://*:7401"}, "nobody can call tcp://*:7401"),
        ({"cloud1_listen": "tcp://0.0.0.0:7401"}, "nobody can call tcp://0.0.0.0:7401"),
        ({"cloud2_listen": "tcp://localhost:7401"}, "a port of its own"),
        ({"cloud1_endpoint": "north.example:7401"}, "must begin with tcp://"),
        (
            {"cloud2_listen": "tcp://*:7403", "cloud2_endpoint": "tcp://c2.example:80"},
            "cloud 2 needs two ports",
        ),
    ],
)
def test_impossible_addresses_are_refused_before_anything_is_written(tmp_path, options, reason):
    with pytest.raises(InputError, match=re.escape(reason)):
        create(tmp_path / "new", 1, insecure_key_bits=256, **options)
    assert not (tmp_path / "new").exists()


def test_clouds_on_two_machines_may_use_the_same_port(tmp_path):
    anywhere = {"cloud1_listen": "tcp://*:7401", "cloud2_listen": "tcp://*:7401"}
    reached = {"cloud1_endpoint": "tcp://c1:7401", "cloud2_endpoint": "tcp://c2:7401"}
    create(tmp_path / "new", 1, insecure_key_bits=256, **anywhere, **reached)


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="not empty"):
        create(tmp_path, 1, insecure_key_bits=256)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_failed_deployment_leaves_nothing(tmp_path):
    with pytest.raises(InputError):
        create(tmp_path / "new", 1, key_bits=123, suites=("paillier",))
    assert not (tmp_path / "new").exists()


def test_a_party_makes_its_own_keys(tmp_path):
    files = make_key(tmp_path / "new" / "keys" / "cloud2", 2048)
    assert {file.name: secret for file, secret in files} == {
        "cloud2.secret": True, "cloud2.public": False,
        "paillier.secret": True, "paillier.public": False,
    }  # fmt: skip
    for file, secret in files:
        assert file.stat().st_mode & 0o777 == (0o600 if secret else 0o644)
    folder = tmp_path / "new" / "keys"
    assert folder.stat().st_mode & 0o077 == 0
    CurveKeys.load(folder / "cloud2")
    assert load_secret(folder / "paillier.secret").public == load_public(folder / "paillier.public")


def test_keys_are_never_overwritten_nor_half_made(tmp_path):
    (tmp_path / "paillier.public").write_text("mine")
    before = tmp_path.stat().st_mode
    with pytest.raises(InputError, match="already"):
        make_key(tmp_path / "cloud2", 2048)
    assert [f.name for f in tmp_path.iterdir()] == ["paillier.public"]
    with pytest.raises(InputError):
        make_key(tmp_path / "x" / "cloud2", 1024)
    assert not (tmp_path / "x").exists()
    assert len(make_key(tmp_path / "north")) == 2
    assert tmp_path.stat().st_mode == before, "a folder that was there stays as it was"


@pytest.mark.parametrize(
    ("endpoint", "allowed", "fine"),
    [
        ("tcp://127.0.0.1:7500", (), True),  # cloud 2's own host
        ("tcp://10.1.2.3:7500", (), False),
        ("tcp://10.1.2.3:7500", ("10.1.0.0/16",), True),
        ("tcp://10.2.2.3:7500", ("10.1.0.0/16",), False),
        ("tcp://w1.cloud2.example:7500", ("w1.cloud2.example",), True),
        ("tcp://w2.cloud2.example:7500", ("w1.cloud2.example",), False),
        ("tcp://[fd00::5]:7500", ("fd00::/8",), True),
        ("tcp://*:7500", ("0.0.0.0/0",), False),
        ("ipc:///run/docker.sock", ("0.0.0.0/0",), False),
        ("inproc://x", ("0.0.0.0/0",), False),
        ("tcp://127.0.0.1:7500;tcp://10.0.0.1:1", (), False),
        ("", (), False),
    ],
)
def test_only_workers_where_cloud_2_may_have_them_are_called(endpoint, allowed, fine):
    cloud2 = "tcp://127.0.0.1:7402"
    if fine:
        check_worker_endpoint(endpoint, cloud2, allowed)
    else:
        with pytest.raises(AccessError, match="cloud2_workers") as caught:
            check_worker_endpoint(endpoint, cloud2, allowed)
        assert endpoint == "" or endpoint not in str(caught.value)
