"""From an invitation to the first study: files, six words, and a cloud that needs no restart."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from html import unescape

import pytest
from typer.testing import CliRunner

from client.both_clouds import Clouds
from client.desk.cloud_screens import CloudScreens
from client.desk.invitation_screens import FirstStart
from client.desk.owner_screens import OwnerScreens
from client.operator import Operator
from client.owner import Owner
from ppodc.cli import app
from ppodc.errors import InputError, PpodcError
from ppodc.local.platform import free_ports
from ppodc.members import Members
from ppodc.service import deployment
from ppodc.service.admitted import admit, callers
from ppodc.service.config import Cloud1Config, OwnerConfig, load
from ppodc.service.invitation import Answer, Invitation, join, read, read_file
from ppodc.service.six_words import six_words, word_list
from ppodc.transport.curve_keys import CurveKeys
from tests.desk.running import running
from tests.desk.world import patients, spec_of
from tests.harness.patience import wait_for


def command(*arguments):
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def home(tmp_path):
    ports = [f"tcp://127.0.0.1:{port}" for port in free_ports(3)]
    return deployment.create(
        tmp_path / "new", ["ann"], cloud1_listen=ports[0], cloud2_listen=ports[1],
        cloud2_listen_control=ports[2],
    )  # fmt: skip


def test_words_differ_with_any_key_and_no_two_are_one_letter_apart():
    words = word_list()
    assert len(words) == len(set(words)) == 829  # 829^6 is about 2^58
    shortened = [word[:i] + "?" + word[i + 1 :] for word in words for i in range(len(word))]
    assert len(set(shortened)) == len(shortened)
    assert len(six_words("a", "b")) == 6
    assert six_words("a", "b") != six_words("b", "a")
    assert six_words("a", "b") == six_words("a", "b")


def test_an_invitation_holds_both_clouds_and_no_secret(home, tmp_path):
    file = tmp_path / "invitation.ppodc"
    said = command("invite", file, "--config", home.party("operator").config, "--study", "rehab")
    opened = read_file(file, Invitation)
    config = load(home.party("ann").config, OwnerConfig)
    assert (opened.cloud1, opened.cloud2, opened.study) == (config.cloud1, config.cloud2, "rehab")
    assert " ".join(opened.words()) in said
    for party in home.parties:
        for secret in party.secrets:
            assert secret.read_bytes().strip() not in file.read_bytes()


def test_joining_makes_a_key_a_configuration_and_an_answer(home, tmp_path):
    file, own = tmp_path / "invitation.ppodc", tmp_path / "own"
    command("invite", file, "--config", home.party("operator").config)
    said = command("join-deployment", file, "--name", "late", "--folder", own)
    config = load(own / "owner.toml", OwnerConfig)
    answer = read_file(own / "late.answer", Answer)
    assert (answer.name, answer.role, config.name) == ("late", "owner", "late")
    assert answer.public_key == (own / "keys" / "late.public").read_text().strip()
    assert " ".join(read_file(file, Invitation).words()) in said
    assert (own / "keys" / "late.secret").stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="there already"):
        command("join-deployment", file, "--name", "late", "--folder", own)


@pytest.mark.parametrize(
    "text",
    [
        "", "a = 1", 'ppodc = "invitation"', 'ppodc = "answer"\nversion = 1\nname = "a b"',
        'ppodc = "invitation"\nversion = 2', "x" * 20_000, '[ppodc]\na = "<script>"',
    ],
)  # fmt: skip
def test_what_is_no_invitation_is_refused(text):
    for kind in (Invitation, Answer):
        with pytest.raises(InputError):
            read(text, kind)


def test_admitting_checks_names_and_keys(home, tmp_path):
    file = home.party("cloud1").config
    config = load(file, Cloud1Config)
    invitation = Invitation(cloud1=load(home.party("ann").config, OwnerConfig).cloud1)
    first = join(invitation, tmp_path / "one", "late")
    again = join(invitation, tmp_path / "two", "late")
    assert admit(file, config, first)
    assert not admit(file, config, first)
    with pytest.raises(InputError, match="another key here"):
        admit(file, config, again)
    assert admit(file, config, again, replace=True)
    keys = callers(file, config)
    assert again.public_key.encode() in keys
    assert first.public_key.encode() not in keys
    with pytest.raises(InputError, match="known here already"):
        admit(file, config, Answer(name="other", public_key=again.public_key))
    impostor = Answer(name="ann", public_key=first.public_key)
    with pytest.raises(InputError, match="another key here"):
        admit(file, config, impostor)


def test_replacing_shows_all_keys_and_asks(home, tmp_path):
    """Whoever sends an answer in ann's name has no proof; a person must have heard ann."""
    file, config = home.party("cloud1").config, load(home.party("cloud1").config, Cloud1Config)
    invitation = Invitation(cloud1=load(home.party("ann").config, OwnerConfig).cloud1)
    new = join(invitation, tmp_path / "thief", "ann")
    old = config.owners["ann"]
    ask = ["admit", str(tmp_path / "thief" / "ann.answer"), "--replace", "--config", str(file)]
    for answer in ("", "n\n"):
        said = CliRunner().invoke(app, ask, input=answer)
        assert said.exit_code == 1
        told = said.output.replace("\n", " ")
        for key in (old, new.public_key):
            assert key in told
            assert " ".join(six_words(key)) in told
        assert old.encode() in callers(file, config)
        assert new.public_key.encode() not in callers(file, config)
    assert CliRunner().invoke(app, ask, input="y\n").exit_code == 0
    assert new.public_key.encode() in callers(file, config)
    assert old.encode() not in callers(file, config)


def test_a_damaged_file_revives_no_key(home, tmp_path):
    """It may have replaced a key: nobody of its name is let in, and others stay."""
    file, config = home.party("cloud1").config, load(home.party("cloud1").config, Cloud1Config)
    invitation = Invitation(cloud1=load(home.party("ann").config, OwnerConfig).cloud1)
    admit(file, config, join(invitation, tmp_path / "mine", "ann"), replace=True)
    (kept,) = (file.parent / "admitted").glob("ann-*.toml")
    good = kept.read_bytes()
    others = {key for key, peer in callers(file, config).items() if peer.name != "ann"}
    for damage in (b"", good[: len(good) // 2], b"\xff" + good):
        kept.write_bytes(damage)
        assert set(callers(file, config)) == others
        with pytest.raises(InputError, match="which keys of 'ann' were replaced"):
            admit(file, config, join(invitation, tmp_path / f"{len(damage)}", "ann"), replace=True)
    kept.write_bytes(good)
    assert len(callers(file, config)) == len(others) + 1


def test_an_answer_cannot_choose_its_role(home, tmp_path):
    file = home.party("cloud1").config
    invitation = Invitation(cloud1=load(home.party("ann").config, OwnerConfig).cloud1)
    join(invitation, tmp_path / "one", "aud", "auditor")
    with pytest.raises(InputError, match="--role auditor"):
        command("admit", tmp_path / "one" / "aud.answer", "--config", file)
    command("admit", tmp_path / "one" / "aud.answer", "--config", file, "--role", "auditor")
    roles = {peer.role for peer in callers(file, load(file, Cloud1Config)).values()}
    assert "auditor" in roles


def rotated_at_the_desk(home, config, spec):
    """A new key, admitted at the desks of both clouds; the owner's rows stay its own."""
    old = CurveKeys.load(load(config, OwnerConfig).key).public.decode()
    with running(partial(OwnerScreens, config)) as desk:
        desk.open()
        assert desk.post("/key/new").status == 303
        answer = read(desk.get("/key/answer"), Answer)
        assert answer.replaces == (old,)
        page = desk.get("/key")
        assert all(f"<li>{word}</li>" in page for word in answer.words())
        early = desk.post("/key/take")
        assert early.status == 400
        assert "Not yet" in early.text
        assert "5 rows of yours" in desk.get(f"/study/{spec.name}/send")  # the old key is in use
        for cloud in ("cloud1", "cloud2"):
            with running(partial(CloudScreens, home.party(cloud).config)) as there:
                there.open()
                there.put("/answer", answer.to_toml().encode())
                page = unescape(there.get("/callers"))
                assert old in page
                assert " ".join(six_words(old)) in page
                heard = {"key": answer.public_key, "same": "yes"}
                assert there.post("/admit", **heard).status == 400
                assert there.post("/admit", **heard, replace="yes").status == 303
        wait_for(lambda: desk.post("/key/take").status == 303)
        assert "5 rows of yours" in desk.get(f"/study/{spec.name}/send")
        assert answer.public_key in unescape(desk.get("/key"))
    assert CurveKeys.load(load(config, OwnerConfig).key).public.decode() == answer.public_key


def test_an_operator_is_let_in_only_as_what_it_is_to_be(home, tmp_path):
    invitation = Invitation(cloud1=load(home.party("ann").config, OwnerConfig).cloud1)
    answer = join(invitation, tmp_path / "one", "boss", "operator")
    with running(partial(CloudScreens, home.party("cloud1").config)) as desk:
        desk.open()
        desk.put("/answer", answer.to_toml().encode())
        heard = {"key": answer.public_key, "same": "yes"}
        assert "Decide first" in desk.post("/admit", **heard).text
        assert desk.post("/admit", **heard, role="yes").status == 303


def test_an_owner_joins_two_running_services_without_a_restart(home, tmp_path):
    """Real services as processes; the new owner is refused before and let in after."""
    file, own = tmp_path / "invitation.ppodc", tmp_path / "own"
    command("invite", file, "--config", home.party("operator").config)
    command("join-deployment", file, "--name", "late", "--folder", own)
    answer = read_file(own / "late.answer", Answer)
    services = []
    try:
        for cloud in ("cloud1", "cloud2"):
            service = subprocess.Popen(
                [sys.executable, "-P", "-m", "ppodc.cli", cloud, "serve",
                 "--config", home.party(cloud).config],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            services.append(service)
            assert service.stdout.readline()
        early = load(own / "owner.toml", OwnerConfig)
        with Clouds.connect(early) as clouds, pytest.raises(PpodcError):
            clouds.datasets()
        command("admit", own / "late.answer", "--config", home.party("cloud1").config)
        with running(partial(CloudScreens, home.party("cloud2").config)) as desk:
            desk.open()
            desk.put("/answer", own / "late.answer")
            page = desk.get("/callers")
            assert all(word in page for word in answer.words())
            assert desk.post("/admit", key=answer.public_key).status == 400
            assert desk.post("/admit", key=answer.public_key, same="yes").status == 303
            assert "admitted" in desk.get("/callers")
        owners = Members.of(
            {"late": answer.public_key, **dict(deployment.members(home.folder).keys)}
        )
        spec = replace(spec_of("totals"), owners=owners)
        with Operator.connect(home.party("operator").config) as operator:
            operator.create(spec)

        def let_in() -> bool:
            try:
                with Owner.connect(own / "owner.toml") as owner:
                    return [listed.name for listed in owner.datasets()] == [spec.name]
            except PpodcError:
                return False

        wait_for(let_in)
        with Owner.connect(own / "owner.toml") as owner:
            assert owner.upload(spec.name, patients(5, 0), spec=spec).rows == 5
        rotated_at_the_desk(home, own / "owner.toml", spec)
    finally:
        for service in services:
            service.terminate()
            service.wait(60)
            service.stdout.close()


def test_the_first_start(home, tmp_path):
    file, own = tmp_path / "invitation.ppodc", tmp_path / "own"
    command("invite", file, "--config", home.party("operator").config)
    words = read_file(file, Invitation).words()
    with running(lambda base: FirstStart(own, base)) as desk:
        desk.open()
        assert "Open your invitation" in desk.get("/")
        assert desk.post("/join", name="late", same="yes", **{"with": "ann"}).status == 400
        assert "no invitation" in desk.put("/invitation", b'ppodc = "<script>"').text
        assert desk.put("/invitation", file).headers.get("x-desk-next")
        page = desk.get("/")
        assert all(f"<li>{word}</li>" in page for word in words)
        assert desk.post("/join", name="late").status == 400  # the words were not compared
        assert not (own / "owner.toml").exists()
        assert desk.post("/join", name="la te", same="yes", **{"with": "ann"}).status == 400
        assert desk.post("/join", name="late", same="yes", **{"with": "ann"}).status == 303
        assert "Send your answer back" in desk.get("/")
        assert read(desk.get("/answer"), Answer).name == "late"
    assert load(own / "owner.toml", OwnerConfig).name == "late"
