"""`ppodc desk`: a page on this machine for owners, operators and whoever runs a cloud."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from ppodc.cli.options import config_option, err, file_to_write, out
from ppodc.errors import OptionError

desk = typer.Typer()
Role = Literal["owner", "operator", "auditor"]
PartyConfig = Annotated[
    Path | None,
    config_option("owner.toml, operator.toml or a cloud's file.", needed=False),
]


@desk.command("desk")
def desk_command(
    config: PartyConfig = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of loopback; 0: any.")] = 0,
) -> None:
    """Open the desk, a web page for studies, tables and results that only this machine reaches.

    The page is opened once, through a private file. It ends by its button or after 30 idle
    minutes. If the desk runs already, its page is opened once more.
    """
    from client.desk.start import run_desk

    def ready(page: Path, opened: bool) -> None:
        if not opened:
            sys.stdout.write(f"open this page in your browser: {page.absolute().as_uri()}\n")
            sys.stdout.flush()

    err.print("the desk runs; Ctrl-C ends it", markup=False)
    if run_desk(config, browser=browser, port=port, ready=ready):
        out.print("the desk is closed")
    else:
        out.print("it ran already, as another process; its page is opened again")


@desk.command("invite")
def invite_command(
    to: Annotated[Path, typer.Argument(help="File to write.", callback=file_to_write)],
    config: Annotated[Path, config_option("operator.toml or owner.toml: both clouds' keys.")],
    study: Annotated[str, typer.Option(help="Name of the dataset that it is about.")] = "",
) -> None:
    """Write an invitation: a file with both clouds' endpoints and public keys, and no secrets.

    Whoever gets it opens it at the desk or with `ppodc join-deployment`. Compare the six words.
    """
    from ppodc.service.config import OwnerConfig, load
    from ppodc.service.invitation import Invitation

    loaded = load(config, OwnerConfig)
    invitation = Invitation(study=study, cloud1=loaded.cloud1, cloud2=loaded.cloud2)
    to.write_text(invitation.to_toml(), encoding="utf-8")
    out.print(f"written: {to}", markup=False)
    out.print(f"six words: {' '.join(invitation.words())}")


@desk.command("join-deployment")
def join_command(
    invitation: Annotated[Path, typer.Argument(help="The file that you were sent.")],
    name: Annotated[str, typer.Option(help="The name that others will know you by.")],
    folder: Annotated[Path, typer.Option(help="A new folder for your key and configuration.")],
    role: Annotated[Role, typer.Option(help="What you are to the clouds.")] = "owner",
) -> None:
    """Accept an invitation: make a key, write a configuration, and an answer to send back.

    Compare the six words with another owner, by telephone, before you send any records.
    """
    from ppodc.service.invitation import Invitation, join, read_file

    opened = read_file(invitation, Invitation)
    answer = join(opened, folder, name, role)
    out.print(f"configuration: {folder / f'{role}.toml'}", markup=False)
    out.print(f"send this file back: {folder / f'{name}.answer'}", markup=False)
    out.print(f"six words of the clouds, to compare: {' '.join(opened.words())}")
    out.print(f"six words of your key: {' '.join(answer.words())}")


@desk.command("admit")
def admit_command(
    answer: Annotated[Path, typer.Argument(help="The answer file of an owner or operator.")],
    config: Annotated[Path, config_option("cloud1.toml, cloud2.toml or collector.toml.")],
    replace: Annotated[
        bool,
        typer.Option("--replace", help="The party has a new key: its datasets pass to it."),
    ] = False,
    role: Annotated[
        str, typer.Option("--role", help="What you let the party be: owner, operator or auditor.")
    ] = "owner",
    yes: Annotated[
        bool, typer.Option("--yes", help="With --replace: do not ask. For scripts.")
    ] = False,
) -> None:
    """Let a key call this cloud at once. Compare its six words with its owner first.

    With --replace it takes the place of the party's earlier keys, which are refused from then on.
    The party keeps its datasets, uploads and results once every cloud has done so. Nothing proves
    that the party itself asks for it, so the command shows all keys and asks you.
    """
    from ppodc.service.admitted import admit, keys_replaced_by
    from ppodc.service.config import load_cloud
    from ppodc.service.invitation import Answer, read_file
    from ppodc.service.six_words import six_words

    given = read_file(answer, Answer)
    if given.role != role:
        raise OptionError(
            f"{answer} asks for the role {given.role}, and you admit an {role}. If {given.name} is "
            f"to be an {given.role}: --role {given.role}."
        )
    loaded = load_cloud(config)
    if replace and (old := keys_replaced_by(config, loaded, given)):
        out.print(f"{given.role} {given.name} has these keys here, which are refused from now on:")
        for key in old:
            out.print(f"  {key}  {' '.join(six_words(key))}", markup=False, soft_wrap=True)
        out.print("its datasets, uploads and results pass to whoever holds this one:")
        line = f"  {given.public_key}  {' '.join(given.words())}"
        out.print(line, markup=False, soft_wrap=True)
        if not yes:
            ask = f"Has {given.name} itself read these six words to you?"
            typer.confirm(ask, abort=True)
    new = admit(config, loaded, given, replace=replace)
    state = "admitted" if new else "was admitted before"
    out.print(f"{given.role} {given.name}: {state}. Six words: {' '.join(given.words())}")
