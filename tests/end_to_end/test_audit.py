"""An audited job on Ray workers over ZeroMQ, and its audit by the commands of all parties."""

from dataclasses import replace

from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.mpc import round_trip
from tests.end_to_end.two_services import TwoServices, make_spec, make_tables

_SLOW_US = 8_000  # of the workers: in this process conftest.py has changed it


def test_the_commands_audit_a_job_of_real_workers(services: TwoServices, tmp_path, monkeypatch):
    monkeypatch.setattr(round_trip, "SLOW_US", _SLOW_US)
    spec = replace(make_spec("audited", 2, k=2, min_size=1), audit=True)
    tables = make_tables(5, (7, 6), 2)
    services.upload(spec, tables)
    services.run("audited", pairs=2)
    services.check(spec, tables)
    config = {cloud: str(services.parties.party(f"cloud{cloud}").config) for cloud in (1, 2)}

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["audit", *words])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    with services.store("cloud1") as store:
        (tmp_path / "spec.toml").write_text(store.datasets.spec("audited").to_toml())
    register = str(tmp_path / "audits.json")
    drawn = run("draw", str(tmp_path / "spec.toml"), "--register", register)
    side = int(drawn.split("cloud ")[1][0])
    bundle, ledger = str(tmp_path / "bundle"), str(tmp_path / "ledger.json")
    run("export", "audited", bundle, "--config", config[side])
    run("ledger", "audited", ledger, "--config", config[3 - side])
    found = run("check", bundle, "--other-ledger", ledger, "--register", register)
    assert f"cloud {side} in audited" in found
    assert "are what the protocol sends" in found
    for cloud in (1, 2):
        assert "the records of 1 sessions are erased" in run(
            "erase", "audited", "--config", config[cloud]
        )
