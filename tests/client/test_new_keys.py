"""An owner with a new key keeps its datasets, uploads and results; the old key is refused."""

import json
import os
from contextlib import ExitStack
from dataclasses import replace

import msgspec
import pytest
from typer.testing import CliRunner

from client import Owner
from client.operator import Operator
from ppodc.cli import app
from ppodc.errors import ChannelError, InputError, PpodcError, RefusedError
from ppodc.members import Members
from ppodc.service import new_key
from ppodc.service.admitted import REPLACED, Doorkeeper, admit, callers
from ppodc.service.config import OwnerConfig, load, load_cloud
from ppodc.service.config_text import save
from ppodc.service.deployment import create_local, members
from ppodc.service.invitation import Answer, Invitation, join
from ppodc.service.ledger_entries import verify
from ppodc.service.operations import owner_operations
from ppodc.service.spec_check import check_kind, spec_check
from ppodc.service.store import Store
from ppodc.spec import Spec
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from tests.client.two_gateways import Platform, finish_job, new_deployment, table
from tests.service.data import make_spec


class Clouds:
    """Both gateways as the services run them: admitted callers, and checks of new specs."""

    def __init__(self, deployment):
        self.deployment = deployment
        self.files = [deployment.party(name).config for name in ("cloud1", "cloud2")]
        self.stack = ExitStack()
        self.start()

    def start(self):
        self.stores, self.doorkeepers = [], []
        for file, role in zip(self.files, ("cloud1", "cloud2"), strict=True):
            config = load_cloud(file)
            store = self.stack.enter_context(Store.open(config.store, role))
            operations = owner_operations(store, config.quotas, spec_check(file, config))
            keys = CurveKeys.load(config.key)
            gateway = Gateway(config.listen, keys, callers(file, config), operations)
            self.doorkeepers.append(Doorkeeper(file, config, gateway, store))
            self.stack.enter_context(gateway)
            self.stores.append(store)
        self.platform = Platform(self.deployment, tuple(self.stores))

    def admit(self, answer: Answer, *, replaced: bool = False) -> None:
        for file, doorkeeper in zip(self.files, self.doorkeepers, strict=True):
            admit(file, load_cloud(file), answer, replace=replaced)
            doorkeeper.look()

    def notes(self, cloud: int) -> list[tuple[str, str]]:
        """(dataset, party) of each entry about a replaced key."""
        entries = self.stores[cloud - 1].ledger.entries()
        return [
            (entry.dataset, json.loads(entry.detail)["party"])
            for entry in entries
            if entry.event == REPLACED
        ]


@pytest.fixture
def clouds(tmp_path):
    made = Clouds(new_deployment(tmp_path / "new", ["ann", "bob"]))
    with made.stack:
        yield made


def command(*arguments, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def finished_study(clouds):
    """A dataset with a result, in which ann has records; what she is to get."""
    clouds.platform.create(make_spec())
    with clouds.platform.owner("ann") as ann:
        ann.upload("clinic", table(12))
    clouds.platform.seal()
    finish_job(clouds.platform)
    with clouds.platform.owner("ann") as ann:
        return ann.spec("clinic").digest, ann.result("clinic").labels_.tolist()


def test_a_rotated_key_keeps_results_and_the_old_one_is_refused(clouds, tmp_path):
    digest, labels = finished_study(clouds)
    config = clouds.deployment.party("ann").config
    old = tmp_path / "old"
    CurveKeys.load(load(config, OwnerConfig).key).save(old)
    said = command("owner", "rotate", "--config", config)
    assert "admit FILE --replace" in said
    assert "not yet: cloud 1" in command("owner", "rotate", "--config", config, code=3)
    answer = config.parent / "ann.answer"
    for file in clouds.files:
        command("admit", answer, "--replace", "--yes", "--config", file)
    for doorkeeper in clouds.doorkeepers:
        doorkeeper.look()
    assert "new key is in use" in command("owner", "rotate", "--config", config)
    with clouds.platform.owner("ann") as ann:
        assert ann.spec("clinic").digest == digest
        assert ann.result("clinic").labels_.tolist() == labels
        assert [each.name for each in ann.datasets()] == ["clinic"]
    with _with_key(config, old, tmp_path) as thief, pytest.raises(ChannelError, match="not let"):
        thief.datasets()
    for cloud in (1, 2):
        assert clouds.notes(cloud) == [("", "ann"), ("clinic", "ann")]
        with clouds.platform.owner("bob") as bob:
            entries = bob.ledger(cloud)
        assert verify(iter(entries)).broken is None
        assert [e.dataset for e in entries if e.event == REPLACED] == ["clinic"]


@pytest.mark.parametrize("moved", [0, 1])
def test_an_interrupted_change_of_files_goes_on(clouds, monkeypatch, moved):
    config = load(clouds.deployment.party("ann").config, OwnerConfig)
    answer, _ = new_key.begin(config, clouds.deployment.party("ann").folder)
    real, done = os.replace, []

    def dying(*paths):
        if len(done) == moved:
            raise KeyboardInterrupt
        done.append(real(*paths))

    monkeypatch.setattr(new_key.os, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        new_key.finish(config.key)
    monkeypatch.undo()
    clouds.admit(answer, replaced=True)
    said = command("owner", "rotate", "--config", clouds.deployment.party("ann").config)
    assert "new key is in use" in said
    assert CurveKeys.load(config.key).public.decode() == answer.public_key
    assert not new_key.unfinished(config.key)


def _with_key(config, stem, tmp_path) -> Owner:
    file = tmp_path / "thief" / "owner.toml"
    file.parent.mkdir()
    loaded = load(config, OwnerConfig)
    save(file, OwnerConfig(name="ann", key=stem, cloud1=loaded.cloud1, cloud2=loaded.cloud2))
    return Owner.connect(file)


def test_a_key_that_one_cloud_alone_replaced_gets_no_result(clouds, tmp_path):
    finished_study(clouds)
    loaded = load(clouds.deployment.party("ann").config, OwnerConfig)
    answer = join(Invitation(cloud1=loaded.cloud1, cloud2=loaded.cloud2), tmp_path / "m", "ann")
    admit(clouds.files[0], load_cloud(clouds.files[0]), answer, replace=True)
    clouds.doorkeepers[0].look()
    with Owner.connect(tmp_path / "m" / "owner.toml") as mallory, pytest.raises(ChannelError):
        mallory.result("clinic")


def test_a_lost_key_is_replaced_without_it_and_twice(clouds, tmp_path):
    _, labels = finished_study(clouds)
    loaded = load(clouds.deployment.party("ann").config, OwnerConfig)
    invitation = Invitation(cloud1=loaded.cloud1, cloud2=loaded.cloud2)
    for folder in ("second", "third"):
        clouds.admit(join(invitation, tmp_path / folder, "ann"), replaced=True)
    with Owner.connect(tmp_path / "third" / "owner.toml") as ann:
        assert ann.result("clinic").labels_.tolist() == labels
    with Owner.connect(tmp_path / "second" / "owner.toml") as old, pytest.raises(ChannelError):
        old.datasets()
    for doorkeeper in clouds.doorkeepers:
        doorkeeper.look()
    first_by_second = [("", "ann"), ("clinic", "ann")]
    assert clouds.notes(1) == [*first_by_second, ("", "ann"), ("", "ann"), ("clinic", "ann")]


def test_a_key_replaced_in_the_configuration_keeps_results(clouds):
    _, labels = finished_study(clouds)
    party = clouds.deployment.party("ann")
    config = load(party.config, OwnerConfig)
    old = config.key.with_name("ann.public").read_text().strip()
    new_key.begin(config, party.folder)
    new_key.finish(config.key)
    new = config.key.with_name("ann.public").read_text().strip()
    clouds.stack.close()
    for file in clouds.files:
        text = file.read_text().replace(old, new)
        file.write_text(text.replace("[former_keys]", f'[former_keys]\nann = ["{old}"]'))
    clouds.start()
    with clouds.platform.owner("ann") as ann:
        assert ann.result("clinic").labels_.tolist() == labels
    assert clouds.notes(2) == [("", "ann"), ("clinic", "ann")]


def test_a_name_alone_makes_nobody_an_owner(clouds, tmp_path):
    """A new party that gets the name of an earlier one, without its key, sees nothing of it."""
    finished_study(clouds)
    clouds.stack.close()
    stranger = CurveKeys.generate()
    old = clouds.deployment.party("ann").folder / "keys" / "ann.public"
    for file in clouds.files:
        new = stranger.public.decode()
        file.write_text(file.read_text().replace(old.read_text().strip(), new))
    clouds.start()
    stranger.save(tmp_path / "s")
    config = clouds.deployment.party("ann").config
    with _with_key(config, tmp_path / "s", tmp_path) as owner:
        assert owner.datasets() == []


@pytest.mark.parametrize("wrong", ["another's key", "nobody's name", "current key"])
def test_former_keys_that_cannot_be_are_refused(clouds, wrong):
    file = clouds.files[0]
    bob = (clouds.deployment.party("bob").folder / "keys" / "bob.public").read_text().strip()
    ann = (clouds.deployment.party("ann").folder / "keys" / "ann.public").read_text().strip()
    name, key = {
        "another's key": ("ann", bob),
        "nobody's name": ("zoe", "z" * 40),
        "current key": ("ann", ann),
    }[wrong]
    file.write_text(file.read_text().replace("[former_keys]", f'[former_keys]\n{name} = ["{key}"]'))
    with pytest.raises(InputError, match="former_keys"):
        load_cloud(file)


def test_an_answer_that_replaces_somebody_elses_key_is_refused(clouds):
    file = clouds.files[0]
    bob = (clouds.deployment.party("bob").folder / "keys" / "bob.public").read_text().strip()
    false = Answer(name="ann", public_key=CurveKeys.generate().public.decode(), replaces=(bob,))
    with pytest.raises(InputError, match="does not have here"):
        admit(file, load_cloud(file), false, replace=True)
    other = Answer(name="ann", role="operator", public_key="z" * 40)
    with pytest.raises(InputError, match="another role"):
        admit(file, load_cloud(file), other, replace=True)


def test_specs_with_keys_that_no_cloud_admits_are_refused_at_both(clouds):
    known = dict(members(clouds.deployment.folder).keys)
    spec = replace(make_spec("second"), owners=Members.of({**known, "zoe": "z" * 40}))
    with Operator.connect(clouds.deployment.party("operator").config) as operator:
        with pytest.raises(RefusedError, match=r"owners\.keys\.zoe .* does not admit"):
            operator.create(spec, single_records=True)
        assert operator.datasets() == []
        key = (clouds.deployment.party("operator").folder / "keys" / "operator.public").read_text()
        wrong = replace(spec, owners=Members.of({"ann": key.strip()}))
        with pytest.raises(RefusedError, match="operator 'operator'"):
            operator.create(wrong, single_records=True)
        operator.create(replace(spec, owners=Members.of(known)), single_records=True)


def test_a_refusal_of_the_second_cloud_leaves_nothing_at_the_first(clouds, tmp_path):
    loaded = load(clouds.deployment.party("ann").config, OwnerConfig)
    answer = join(Invitation(cloud1=loaded.cloud1, cloud2=loaded.cloud2), tmp_path / "z", "zoe")
    admit(clouds.files[0], load_cloud(clouds.files[0]), answer)  # at cloud 1 alone
    spec = replace(make_spec("second"), owners=Members.of({"zoe": answer.public_key}))
    with Operator.connect(clouds.deployment.party("operator").config) as operator:
        with pytest.raises(RefusedError, match="does not admit"):
            operator.create(spec, single_records=True)
        assert operator.datasets() == []
        admit(clouds.files[1], load_cloud(clouds.files[1]), answer)
        operator.create(spec, single_records=True)


def test_a_spec_with_a_replaced_key_is_refused_and_told_the_new_one(clouds, tmp_path):
    finished_study(clouds)
    before = members(clouds.deployment.folder)
    loaded = load(clouds.deployment.party("ann").config, OwnerConfig)
    answer = join(Invitation(cloud1=loaded.cloud1, cloud2=loaded.cloud2), tmp_path / "n", "ann")
    clouds.admit(answer, replaced=True)
    with Operator.connect(clouds.deployment.party("operator").config) as operator:
        with pytest.raises(RefusedError) as caught:
            operator.create(replace(make_spec("second"), owners=before), single_records=True)
        assert answer.public_key in str(caught.value)
        # what exists is created again without harm
        spec = clouds.stores[0].datasets.spec("clinic")
        assert operator.create(spec, single_records=True) == spec.digest


def test_kinds_that_a_deployment_cannot_run_are_refused(tmp_path):
    from ppodc import kinds

    specs = [
        Spec.loads(kinds.named(name).sample + members_toml) for name in kinds.ROOMS
        for members_toml in (Members.of({"ann": "a" * 40}).to_toml(),)
    ]  # fmt: skip
    for spec in specs:
        local = spec.job.kind == "local"
        check_kind(spec, alone=local)
        with pytest.raises(InputError, match="ppodc init"):
            check_kind(spec, alone=not local)
    made = create_local(tmp_path / "alone", 1)
    file = made.party("collector").config
    kmeans = replace(make_spec(), owners=members(made.folder))
    with pytest.raises(InputError, match="single server"):
        spec_check(file, load_cloud(file))(kmeans)


def test_silent_supplies_need_the_consent_of_each_cloud(clouds):
    spec = replace(make_spec(), owners=members(clouds.deployment.folder))
    wanted = replace(spec, job=replace(spec.job, supplies="silent"))
    for file in clouds.files:
        config = load_cloud(file)
        spec_check(file, config)(spec)
        with pytest.raises(InputError, match="has not consented to"):
            spec_check(file, config)(wanted)
        spec_check(file, msgspec.structs.replace(config, silent_supplies=True))(wanted)


def test_an_owner_is_added_to_a_deployment_on_this_machine(clouds):
    folder = clouds.deployment.folder
    said = command("owner", "add", "carol", "--deployment", folder)
    for doorkeeper in clouds.doorkeepers:
        doorkeeper.look()
    with Owner.connect(folder / "carol" / "owner.toml") as carol:
        assert carol.datasets() == []
    key = (folder / "carol" / "keys" / "carol.public").read_text().strip()
    assert f'keys."carol" = "{key}"' in said
    assert command("owner", "add", "carol", "--deployment", folder) == said, "again is harmless"
    with pytest.raises(PpodcError, match="already"):
        command("owner", "add", "operator", "--deployment", folder)


def test_an_owner_hears_that_a_spec_knows_its_key_by_another_name(clouds):
    clouds.platform.create(make_spec())
    config = clouds.deployment.party("ann").config
    config.write_text(config.read_text().replace('name = "ann"', 'name = "bob"'))
    with (
        clouds.platform.owner("ann") as owner,
        pytest.warns(UserWarning, match="your key as 'ann'"),
    ):
        owner.upload("clinic", table(6))
    said = CliRunner().invoke(app, ["doctor", "--config", str(config)])
    assert said.exit_code == 1
    assert "knows you as owner ann; your file says owner bob" in said.output
