"""`ppodc bench ...`: what k-means costs, step by step, over sizes and pairs, beside others."""

import inspect
from pathlib import Path

import typer

from ppodc.bench.network_presets import USD_PER_CORE_HOUR, LinkName
from ppodc.cli.measurement import (
    IMITATED_LINK,
    MANY_KEYS,
    PAIRS,
    SHAPE,
    SUITE,
    K,
    L,
    Measurement,
    choice,
    many,
    optional,
    parameter,
    parsed,
    records,
)  # fmt: skip
from ppodc.cli.written_values import duration, numbers, numbers_or_none, whole
from ppodc.kmeans import suites
from ppodc.kmeans.half import Products


def few(default: int) -> inspect.Parameter:
    text = "Records of the paillier suite, extrapolated to all m."
    return choice("records", int, default, text, min=1)


SIZES = "2000,4000,6000,8000,10000"
MANY_PAIRS = parsed("pairs", numbers, "1,2,4,8", "Numbers of worker pairs.")
ANY_SUITE = optional("suite", suites.Suite, "One suite; both if left out.")
KEY_TEXT = "Paillier key: 2048 or 3072 bits; less to compare with published figures."
KEY_BITS = choice("key_bits", int, 2048, KEY_TEXT)
ITERATIONS = choice("iterations", int, 5, "Iterations to measure over.", min=1)
SHARES_ITERATIONS = choice("iterations", int, 3, "Iterations of the shares suite.", min=1)
OF_ONE_SUITE = (KEY_BITS, few(8), SHARES_ITERATIONS)
PRODUCTS = choice("products", Products, "auto", "How the shares suite multiplies with records.")
# Longer than a line of the table has room for
POWERS_OF_TWO = "1,2,4,8,16,32,64,128,256,512,1024"
WITHIN_TEXT = "How many pairs finish the job in this time, such as 1h?"
DISPATCH_TEXT = "Of the master, for each pair and phase (assumed)."
DEPLOYMENT_TEXT = "Folder of `ppodc init` whose clouds run; this machine if left out."
KEGG_TEXT = "The data set (.csv or .csv.gz); without it, the stored results."
KEGG_ROWS_TEXT = "Records that the paillier suite runs; 'none' leaves it out."

MEASUREMENTS = (
    Measurement(
        "iteration",
        "One iteration between two processes: offline, online, bytes, rounds, memory, by step.",
        (SUITE, *SHAPE, PAIRS, ITERATIONS, *IMITATED_LINK, KEY_BITS, PRODUCTS),
        points=False,
        draws=False,
    ),
    Measurement(
        "start",
        "Choosing the first records by k-means++, beside an iteration of the same job.",
        (records(), L, *many(k="4,20"), PAIRS, SHARES_ITERATIONS, *IMITATED_LINK, KEY_BITS),
        points=False,
        draws=False,
    ),
    Measurement(
        "primitives",
        "Table 5.3: SMP, SSED_OP, SBD, SMIN_k per invocation, both suites, with counts.",
        (
            ANY_SUITE,
            KEY_BITS,
            records(6000, "Records of the job (fixes the widths)."),
            L,
            K,
            choice("records", int, 24, "Records the paillier suite measures over.", min=1),
        ),
    ),
    Measurement(
        "sweep",
        "Figure 5.3: seconds per iteration over m, k and l.",
        (ANY_SUITE, *many(m=SIZES, k="2,4,6,8", l="5,10,15,20"), *OF_ONE_SUITE),
    ),
    Measurement(
        "breakdown",
        "Figure 5.4: what part of an iteration each primitive takes, over k.",
        (ANY_SUITE, *many(k="2,3,4,5,6,7,8"), records(6000), L, *OF_ONE_SUITE),
    ),
    Measurement(
        "modes",
        "Figure 5.5: the paillier suite online + offline, online and pipelined, over m.",
        (*many(m=SIZES), L, K, KEY_BITS, few(16)),
    ),
    Measurement(
        "pairs",
        "Figure 5.6: one iteration over worker pairs on Ray; CPU, critical path, wall time.",
        (MANY_PAIRS, *SHAPE, SUITE, ITERATIONS, optional("deployment", Path, DEPLOYMENT_TEXT)),
    ),
    Measurement(
        "simulate",
        "SIMULATION of many pairs, calibrated here: time and money of an iteration and of a job.",
        (
            parsed("m", whole, "1e6", "Records, up to 1e9."),
            L,
            K,
            SUITE,
            KEY_BITS,
            parsed("pairs", numbers, POWERS_OF_TWO, "Numbers of worker pairs, up to 1024."),
            optional("link", LinkName, "What lies between the clouds; all three if left out."),
            optional("gbit", float, "Gbit/s of each pair and direction."),
            optional("latency_ms", float, "One-way latency."),
            optional("total_gbit", float, "Gbit/s of all pairs together, each direction."),
            choice("usd_core_hour", float, USD_PER_CORE_HOUR, "Price of a core for an hour."),
            optional("usd_gb", float, "Price of a GB between the clouds: 0, 0.01, 0.09 by link."),
            parsed("within", duration, None, WITHIN_TEXT),
            choice("iterations", int, 20, "Iterations of the whole job.", min=1),
            choice("dispatch_ms", float, 2.0, DISPATCH_TEXT, min=0),
        ),
    ),
    Measurement(
        "kegg",
        """KEGG to convergence with the shares suite, every iteration compared with plaintext.

        Without --m: m, l and k vary one at a time around 10,000 records, 10 attributes, 4
        clusters, and all records run with 27 and 10 attributes. With --m: every combination of the
        lists.
        """,
        (
            parameter("data", Path | None, typer.Argument(None, help=KEGG_TEXT)),
            parsed("m", numbers, None, "Records, with all l and k; one at a time if left out."),
            *many(l="5,10,15,20,27", k="2,4,6,8"),
            PAIRS,
            choice("max_iter", int, 100, "Most iterations of a job.", min=1),
            parsed("paillier_rows", numbers_or_none, "8,32", KEGG_ROWS_TEXT),
            MANY_KEYS,
        ),
    ),
    Measurement(
        "peers",
        "The same iteration in SecretFlow SPU (Cheetah, Semi2k) beside the shares suite.",
        (
            *SHAPE,
            choice("runs", int, 3, "Iterations to take the median of.", min=1),
            optional("python", Path, "Interpreter that has the package `spu`, if not this one."),
            *IMITATED_LINK,
        ),
    ),
    Measurement(
        "paillier",
        "Encrypt, decrypt, randomise, multiply by plain and add, side by side with `phe`.",
        (KEY_BITS, choice("seconds", float, 30, "How long to measure.")),
        points=False,
        draws=False,
        module="paillier_beside_phe",
    ),
)
