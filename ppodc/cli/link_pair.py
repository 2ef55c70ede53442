"""`ppodc link pair`: two owners link their records directly, without clouds."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

import typer

from ppodc.cli.links_file import LinksFile, write_links
from ppodc.cli.opened_results import show_result
from ppodc.cli.options import JsonFile, OnlyAsked, err, on_interrupt, write_json
from ppodc.errors import OptionError

link_pair = typer.Typer()
STATE = (
    "The other owner was notified. Nothing of the result is known to either unless it was printed; "
    "repeat the command at both ends. Cells that were charged are not charged again."
)


@link_pair.command("pair")
def pair_command(
    spec: Annotated[Path, typer.Argument(help="Spec of the kind linkage; both have the same.")],
    data: Annotated[Path, typer.Argument(help="Table: CSV (also .csv.gz), Parquet or .xlsx.")],
    role: Annotated[
        Literal["1", "2"], typer.Option(help="1 listens at --address, 2 connects to it.")
    ],
    name: Annotated[str, typer.Option(help="Your name, by which the other's links call you.")],
    address: Annotated[str, typer.Option(help="Of owner 1, such as tcp://192.0.2.7:7500.")],
    key: Annotated[Path, typer.Option(help="NAME of your files NAME.secret and NAME.public.")],
    peer: Annotated[Path, typer.Option(help="The other owner's file NAME.public.")],
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for the other owner.")] = 60,
    privacy: Annotated[
        Path, typer.Option(help="Folder with your privacy budget; blocks are charged to it.")
    ] = Path("ppodc-privacy"),
    max_epsilon: Annotated[float, typer.Option(min=0, help="What may be charged in all.")] = 10,
    header: Annotated[bool, typer.Option(help="Whether the CSV has a line of names.")] = True,
    only: OnlyAsked = False,
    id_column: Annotated[
        str, typer.Option("--id", help="Column that names rows: it stays here, --links has it.")
    ] = "",
    links: LinksFile = None,
    json_file: JsonFile = None,
) -> None:
    """Link your records with those of one other owner, directly: no cloud, no third party.

    Both run this command with the same spec, one with --role 1, the other with --role 2. Keys are
    made with `ppodc key NAME`; give the other owner your NAME.public by a way that you trust. Each
    learns what the spec says of its own rows (links, flags or the number of links) and how many
    rows the other has, with blocks its padded cells instead. Neither sees a value of the other.
    """
    from client.platforms.direct import link_with
    from ppodc.cli.screen import JobScreen
    from ppodc.records.read_table import Only
    from ppodc.spec import Spec
    from ppodc.transport.curve_keys import CurveKeys, load_public

    given = Only(data, further=only, id_column=id_column)
    agreed = Spec.load(spec)
    CurveKeys.load(key), load_public(peer)  # before anything is said
    if not data.exists():
        raise OptionError(f"{data} does not exist: give the path of a CSV or Parquet file.")
    for line in (*agreed.describe(clouds=False), f"digest {agreed.digest}"):
        err.print(line, markup=False, soft_wrap=True)
    err.print("There is no cloud: where it says clouds, the two owners learn it of each other.")
    with on_interrupt(lambda: STATE), JobScreen(err) as screen:
        result = link_with(
            agreed,
            given,
            role=1 if role == "1" else 2,
            owner=name,
            address=address,
            key=key,
            peer=peer,
            wait=wait,
            privacy=privacy,
            max_epsilon=Fraction(repr(max_epsilon)),
            header=header,
            progress=screen.show,
            ready=lambda where: err.print(f"waiting for the other owner at {where}", markup=False),
        )
    show_result(result)
    if links is not None:
        ids = {} if given.home.ids is None else {"id": given.home.ids}
        write_links(links, result, ["owner", "owner_row"], ids)
    write_json(json_file, result.figures())
