"""Access to the gateways; every refusal is logged."""

import secrets

import pytest
from typer.testing import CliRunner

from client.owner import Owner
from ppodc.cli import app
from ppodc.errors import ChannelError, RefusedError
from ppodc.local.platform import free_ports
from ppodc.records.encode import encode
from ppodc.records.sharing import split
from ppodc.service import deployment
from ppodc.service.job_state import JobState
from ppodc.service.messages import (
    Begin,
    ChunkPlace,
    Dataset,
    DatasetList,
    DatasetsAsk,
    Named,
    ResultReply,
    RowsAsk,
    SpecText,
    UploadRef,
    UploadState,
)
from ppodc.spec import Spec
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.wire import Empty
from tests.client.two_gateways import finish_job, table
from tests.service.data import make_spec


def test_upload_after_sealing_is_refused_and_logged(platform, caplog):
    with platform.owner() as ann:
        ann.upload("clinic", table(5))
        platform.seal()
        with pytest.raises(RefusedError, match="no more uploads"):
            ann.upload("clinic", table(6))
    assert "owner ann: refused 'begin'" in caplog.text


def test_a_wrong_spec_digest_is_refused_and_logged(platform, caplog):
    begin = Begin("clinic", "0" * 64, secrets.token_hex(16), 5)
    for cloud in (1, 2):
        raw = platform.client("ann", cloud)
        with raw, pytest.raises(RefusedError, match="another one here"):
            raw.call("begin", begin, reply=UploadState)
    assert caplog.text.count("owner ann: refused 'begin'") == 2


def test_another_owners_upload_cannot_be_touched(platform, caplog):
    with platform.owner() as ann:
        receipt = ann.upload("clinic", table(5))
        platform.seal()
        finish_job(platform)
    share, _ = split(encode(table(5), make_spec().schema))
    with platform.client("eve") as eve:
        for op, body, arrays in [
            ("chunk", ChunkPlace(receipt.upload_id, 0), [share]),
            ("commit", UploadRef(receipt.upload_id), []),
            ("missing", UploadRef(receipt.upload_id), []),
            ("rows", RowsAsk("clinic", receipt.upload_id, "labels"), []),
        ]:
            with pytest.raises(RefusedError, match="is not of eve"):
                eve.call(op, body, arrays, reply=Empty)
        with pytest.raises(RefusedError, match="eve has no records"):
            eve.call("result", Named("clinic"), reply=ResultReply)
    assert caplog.text.count("owner eve: refused") == 5


def test_roles_are_kept_apart(platform):
    with platform.client("operator") as operator:
        with pytest.raises(RefusedError, match="not for the role"):
            operator.call("result", Named("clinic"), reply=ResultReply)
        operator.tell("create", SpecText(make_spec("second").canonical()))
        listed = operator.call("datasets", DatasetsAsk("clinic"), reply=DatasetList)[0].datasets
        assert listed == (Dataset("second", make_spec("second").digest, JobState.CREATED, 0, 0),)
    with platform.client("ann") as ann:
        for op in ("create", "leave_out", "delete"):
            with pytest.raises(RefusedError, match="not for the role"):
                ann.call(op, Named("clinic"), reply=Empty)
        with pytest.raises(RefusedError, match="no operation"):
            ann.call("status", Named("clinic"), reply=Empty)


def test_an_unknown_key_is_refused(platform, caplog):
    path = platform.deployment.party("ann").folder / "keys"
    for file in path.iterdir():
        file.unlink()
    CurveKeys.generate().save(path / "ann")
    with platform.owner() as stranger, pytest.raises(ChannelError, match="does not let this key"):
        stranger.datasets()
    assert "is not allowed" in caplog.text


def test_a_spec_travels_in_canonical_form(platform):
    with platform.client("ann") as raw:
        received = raw.call("spec", Named("clinic"), reply=SpecText)[0].spec
    assert Spec.from_bytes(received) == platform.stores[0].datasets.spec("clinic")


def test_health_asks_both_clouds_and_names_each_that_is_away(tmp_path, monkeypatch):
    made = deployment.create(tmp_path / "d", 1, **_away())
    monkeypatch.setenv("PPODC_CONFIG", str(made.party("operator").config))
    done = CliRunner().invoke(app, ["health", "--timeout", "3600"])  # a refusal is told at once
    assert done.exit_code == 1
    assert done.output.count("nobody listens at") == 2
    assert [line.split("\t")[0] for line in done.output.splitlines()[1:]] == ["cloud 1", "cloud 2"]
    assert "answers" not in done.output


def test_an_owner_hears_at_once_that_a_port_refuses(tmp_path):
    made = deployment.create(tmp_path / "d", 1, **_away())
    config = made.party("owner1").config
    config.write_text(config.read_text().replace("timeout = 30.0", "timeout = 3600.0"))
    with Owner.connect(config) as owner, pytest.raises(ChannelError, match="nobody listens"):
        owner.datasets()


def _away() -> dict[str, str]:
    """Addresses where nobody listens."""
    names = ("cloud1_listen", "cloud2_listen", "cloud2_listen_control")
    ports = free_ports(len(names))
    return {name: f"tcp://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
