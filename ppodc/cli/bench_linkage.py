"""`ppodc bench linkage...`: what record linkage costs and finds, beside others."""

from pathlib import Path

import typer

from ppodc.cli.measurement import (
    IMITATED_LINK,
    MANY_KEYS,
    Measurement,
    choice,
    many,
    optional,
    parameter,
    records,
)  # fmt: skip

FEBRL_TEXT = "Folder with FEBRL's dataset3.csv and dataset4a.csv, b; else of the peers' package."
CENSUS_TEXT = "Folder with dist.all.last etc. of the PyPI package `names`."

MEASUREMENTS = (
    Measurement(
        "linkage",
        """Private record linkage in the clear: pairs left to compare, beside the published ones.

        On Adult over the size, epsilon, delta, eta and theta; on names if their folder is given.
        """,
        (
            parameter("data", Path, typer.Argument(help="The Adult data set (adult.data).")),
            *many(m="1500,3000,6000,12000"),
            choice("seeds", int, 20, "Runs of each point, each with its own sample.", min=1),
            choice("sweeps", bool, True, "Also one parameter at a time at 6,000 records."),
            choice("kd_readings", bool, False, "Also every reading of the published kd-trees."),
            optional("names", Path, CENSUS_TEXT),
        ),
    ),
    Measurement(
        "linkage-pairs",
        """What comparing a pair of records on shares costs; every match bit checked.

        Numbers and strings drawn at random, and Adult in cells if its file is given.
        """,
        [
            parameter("data", Path | None, typer.Argument(None, help="adult.data, if at hand.")),
            choice("side", int, 2048, "Rows of each owner, numbers.", min=4),
            choice("strings", int, 256, "Rows of each owner, strings.", min=4),
            records(6000, "Rows of each owner, Adult."),
            choice("every", bool, False, "Adult also without cells: all pairs of rows."),
        ],
        draws=False,
        module="linkage_pairs",
    ),
    Measurement(
        "linkage-texts",
        """Names in cells of lengths and mixed fields on shares, also over an imitated slow link.

        Every match bit is checked. Fields are of made-up people; names need the census' lists.
        """,
        [
            parameter("names", Path | None, typer.Argument(None, help=CENSUS_TEXT)),
            choice("people", int, 30_000, "Names of so many people, in thirds.", min=9),
            choice("theta", int, 1, "Most edits of both names together.", min=0, max=8),
            choice("side", int, 100, "Rows of each owner, fields; 0 leaves them out.", min=0),
            *IMITATED_LINK,
        ],
        draws=False,
        module="linkage_texts",
    ),
    Measurement(
        "linkage-peers",
        """FEBRL linked by recordlinkage, splink, anonlink, and on shares: how well, who sees what?

        Rules are fixed on FEBRL 3 and tested on FEBRL 4. Ours really runs between two processes.
        """,
        [
            optional("data", Path, FEBRL_TEXT),
            optional("python", Path, "Interpreter that has the peers, as of `make linkage-peers`."),
            choice(
                "passes",
                int,
                2,
                "1: by birth year; 2: also by birth year or postcode.",
                min=1,
                max=2,
            ),
        ],
        draws=False,
        module="linkage_peers",
    ),
    Measurement(
        "linkage-paillier",
        "A pair of records by the published three-party protocol: Paillier and garbled circuits.",
        [
            choice("side", int, 8, "Records of each owner; all pairs are compared.", min=4),
            MANY_KEYS,
        ],
        draws=False,
        module="linkage_paillier",
    ),
)
