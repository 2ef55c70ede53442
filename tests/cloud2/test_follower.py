"""C2 refuses requests of C1 that its own configuration does not allow."""

import secrets

import pytest

from cloud2.follower import Follower
from ppodc.errors import InputError
from ppodc.pairs.control_messages import Open
from ppodc.service.config import Cloud2Config, load
from ppodc.service.deployment import create
from ppodc.service.store import Store
from ppodc.transport.curve_keys import CurveKeys
from tests.harness.thread_workers import ThreadWorkers
from tests.service.data import make_spec


def test_a_suite_that_the_configuration_does_not_name_is_refused(tmp_path):
    made = create(tmp_path / "deployment", 1, insecure_key_bits=256)
    config = load(made.party("cloud2").config, Cloud2Config)
    assert config.suites == ("shares",)
    spec, upload = make_spec(), secrets.token_hex(16)
    with Store.open(config.store, "cloud2") as store:
        store.datasets.create(spec)
        store.uploads.begin(spec.name, "owner1", upload, 3)
        store.uploads.put_seed(upload, bytes(32))
        store.uploads.commit(upload)
        seal = store.seals.seal(spec.name, [upload])
        publics = [CurveKeys.generate().public]
        body = Open(spec.name, spec.digest, seal, "paillier", 1, 1, 0, [], publics)
        with pytest.raises(InputError, match=r"paillier.*only in shares.*cloud2\.toml"):
            Follower(store, config, ThreadWorkers(id)).open(body)
        assert store.jobs.get(spec.name).suite == ""
