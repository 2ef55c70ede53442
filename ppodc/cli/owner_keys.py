"""`ppodc owner`: add an owner to a deployment on this machine, and give an owner a new key."""

from pathlib import Path
from typing import Annotated

import typer

from ppodc.cli.options import OwnConfig, out
from ppodc.cli.plain_help import group

owner = group(help="Add an owner, or give one a new key.")


@owner.command("add")
def owner_add_command(
    name: Annotated[str, typer.Argument(help="The name that others will know the owner by.")],
    deployment: Annotated[Path, typer.Option(help="The folder that `ppodc init` wrote.")],
) -> None:
    """Add an owner to a deployment of `ppodc init`; running clouds let the key in at once.

    Where parties have machines of their own: `ppodc invite`, `ppodc join-deployment` and, at each
    cloud, `ppodc admit`. Datasets that exist keep their owners. Name the new one in the next spec.
    """
    from ppodc.service.deployment import add_owner

    folder, answer = add_owner(deployment, name)
    out.print(f"owner {name}: give {folder} to {name} alone", markup=False)
    out.print(f'for new specs: keys."{name}" = "{answer.public_key}"', markup=False)


@owner.command("rotate")
def owner_rotate_command(config: OwnConfig) -> None:
    """Replace your key: datasets, uploads and results stay yours, and the old key is refused.

    Run it once to make the new key and an answer for the clouds. Each cloud admits the answer with
    `ppodc admit --replace`. Run it again to take up the new key; the old secret is deleted then.
    While a cloud does not let the new key in, it says so and exits with 3.
    """
    from client.both_clouds import not_admitted
    from ppodc.service import new_key
    from ppodc.service.config import OwnerConfig, load

    loaded = load(config, OwnerConfig)
    waiting: list[str] = []
    if new_key.unfinished(loaded.key):
        if not new_key.half_moved(loaded.key):
            waiting = not_admitted(loaded, new_key.next_stem(loaded.key))
        if not waiting:
            new_key.finish(loaded.key)
            out.print(f"{loaded.name}: the new key is in use; the old secret is deleted")
            return
    for reason in waiting:
        out.print(f"not yet: {reason}", markup=False)
    answer, file = new_key.begin(loaded, config.resolve().parent)
    out.print(f"send this file to every cloud: {file}", markup=False)
    out.print(f"six words of the new key: {' '.join(answer.words())}")
    role = "" if answer.role == "owner" else f" --role {answer.role}"
    out.print(f"each cloud: ppodc admit FILE --replace{role}; then run this command again")
    if waiting:
        raise typer.Exit(3)  # trying again may help
