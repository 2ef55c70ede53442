"""`ppodc bench ldp ...`: what clustering under differential privacy costs and gives."""

from pathlib import Path

import typer

from ppodc.cli.measurement import Measurement, choice, optional, parsed
from ppodc.errors import InputError

ldp = typer.Typer(
    help="Clustering under differential privacy: the published systems, ours, and peers.",
    no_args_is_help=True,
)

SET_NAMES = ("s1", "s1-5000", "adult", "bank", "a1", "unbalance")


def epsilons(text: str) -> list[float]:
    """What a list such as "0.5,1,2" means, rising and each once."""
    try:
        values = sorted({float(part) for part in text.split(",")})
    except ValueError:
        raise InputError(f"{text!r} is not a list of numbers such as 0.5,1,2.") from None
    if not 0 < values[0] <= values[-1] <= 1000:
        raise InputError(f"{text!r}: every epsilon must be above 0 and at most 1000.")
    return values


def sets(text: str) -> list[str]:
    """Names of data sets, or "all"."""
    names = SET_NAMES if text == "all" else tuple(part.strip() for part in text.split(","))
    unknown = [name for name in names if name not in SET_NAMES]
    if unknown:
        raise InputError(f"there is no data set {unknown[0]!r}; known are {', '.join(SET_NAMES)}.")
    return list(names)


DATA = choice("data", Path, Path("../shared/data"), "Folder of the public data sets.")
RUNS = choice("runs", int, 6, "Runs to take the mean of.", min=1)
SETS = parsed("sets", sets, "all", f"Data sets, of {', '.join(SET_NAMES)}.")
EPSILONS = parsed("epsilons", epsilons, "0.5,1,2,4", "Epsilons of one record.")

MEASUREMENTS = (
    Measurement(
        "privbv",
        "PrivBV and DPBV: digits beside Table 3, distances, shapes, linkage, and the attack.",
        [
            DATA,
            choice("starts", int, 10, "Random starts of a clustering.", min=1),
            parsed("epsilons", epsilons, "0.5,1,2,4", "b: epsilons of one bit, as published."),
        ],
        points=False,
        module="ldp.privbv",
    ),
    Measurement(
        "ldpseg",
        "LDPseg with MOUE and UER on BANK and digits, beside an honest budget.",
        [DATA, choice("knn_rows", int, 45_211, "Records of BANK for k-NN; 0 leaves it out.")],
        points=False,
        module="ldp.ldpseg",
    ),
    Measurement(
        "kmodes",
        "LDPK-modes beside joint cells: errors of counts, and modes of real data.",
        [DATA, choice("runs", int, 20, "Runs to take the mean of.", min=1)],
        points=False,
        module="ldp.kmodes",
    ),
    Measurement(
        "beyond",
        "NICV over epsilon: codebook, noise in the two clouds, the published made honest.",
        [
            DATA, SETS, EPSILONS, RUNS,
            choice("published_runs", int, 2, "Runs of PrivBV and LDPseg; 0 leaves them out."),
        ],
        points=False,
        module="ldp.beyond",
    ),
    Measurement(
        "speed",
        "Reports made and counted, distances and clustering: CPU seconds of one core.",
        [choice("rows", int, 1_000_000, "Records.", min=100)],
        points=False,
        draws=False,
        module="ldp.speed",
    ),
    Measurement(
        "clouds",
        "An iteration with noise in the two clouds, on real processes: seconds and bytes.",
        [
            choice("m", int, 10_000, "Records.", min=1),
            choice("l", int, 10, "Columns.", min=1),
            choice("k", int, 8, "Clusters.", min=1, max=64),
            choice("iterations", int, 3, "Iterations to take the mean of.", min=1),
        ],
        draws=False,
        module="ldp.noisy_iteration",
    ),
    Measurement(
        "peers",
        "diffprivlib and pure-ldp, in an environment of their own, beside ours.",
        [
            DATA, SETS, EPSILONS, RUNS,
            choice("users", int, 20_000, "Records of the frequency oracle.", min=1),
            optional("python", Path, "Interpreter that has diffprivlib and pure-ldp."),
        ],
        points=False,
        module="ldp.peers",
    ),
)  # fmt: skip
for _measurement in MEASUREMENTS:
    ldp.command(_measurement.name)(_measurement.command())
