"""C2 refuses requests of C1 that its own configuration does not allow."""

import secrets
from dataclasses import replace

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


def opened(folder, spec, suite):
    """C2's answer to a job of this suite."""
    made = create(folder / "deployment", 1, insecure_key_bits=256)
    config, upload = load(made.party("cloud2").config, Cloud2Config), secrets.token_hex(16)
    assert config.suites == ("shares",)
    with Store.open(config.store, "cloud2") as store:
        store.datasets.create(spec)
        store.uploads.begin(spec.name, "owner1", upload, 3)
        store.uploads.put_seed(upload, bytes(32))
        store.uploads.commit(upload)
        seal = store.seals.seal(spec.name, [upload])
        publics = [CurveKeys.generate().public]
        body = Open(spec.name, spec.digest, seal, suite, 1, 1, 0, [], publics)
        try:
            Follower(store, config, ThreadWorkers(id)).open(body)
        finally:
            assert store.jobs.get(spec.name).suite == ""


def test_a_suite_that_the_configuration_does_not_name_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"paillier.*only in shares.*cloud2\.toml"):
        opened(tmp_path, make_spec(), "paillier")


def test_silent_supplies_without_consent_are_refused(tmp_path):
    spec = make_spec()
    spec = replace(spec, job=replace(spec.job, supplies="silent"))
    with pytest.raises(InputError, match=r"not consented to.*silent_supplies = true.*cloud2\.toml"):
        opened(tmp_path, spec, "shares")
