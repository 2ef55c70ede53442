"""`ppodc bench linkage-paillier`: a pair of records by the published three-party protocol.

All three parties run in this process, Alice and Bob as two threads with a real session between
them; each party's time is its own CPU time. Randomisers are made as published (r^n, a full
exponentiation each) or from fixed-base tables. The links of all runs are compared with plaintext,
the operations with the published count, 6 d + 5 exponentiations a pair.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document
from ppodc.bench.document import Document, Table
from ppodc.bench.linkage.pairs import UB
from ppodc.bench.linkage.three_parties import (
    Encrypted,
    Matching,
    decide,
    encrypt,
    matches,
    randomise,
)
from ppodc.bench.linkage.trials import PUBLISHED_MS
from ppodc.bench.machine import watched
from ppodc.bench.options import KeptPoints, ManyKeyBits
from ppodc.bench.points import Task, Tell, measure
from ppodc.crypto.paillier import PublicKey, SecretKey, Tally
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.random_stream import SecureRandom
from ppodc.crypto.randomisers import FreshRandomisers, PowerRandomisers
from ppodc.linkage.rules import SquaredDistance
from ppodc.local.pair import make_key
from ppodc.mpc.session import Session
from ppodc.transport.channel import memory_pair

COLUMNS = 5
LEAST_SAFE = 2048
SOURCES = ("r^n", "fixed base")
PUBLISHED = {"record_ms": 16.8, "charlie_ms": 33.7, "pair_ms": PUBLISHED_MS, "bytes": 108_352 / 8}
NOTES = (
    "CPU milliseconds of each party for a pair of 5 numbers, and for encrypting a record. "
    "Published (1,024 bits, i7-2600): 16.8 ms a record, Charlie 33.7 ms, 38.94 ms for a pair with "
    "Charlie working beside the owners; 13.5 kB. Ours: `slowest` is the party that the others "
    "wait for if all three work at the same time.",
    "Operations of a pair: 6 d + 5 = 35 exponentiations modulo n^2, counted. The owner of a key "
    "decrypts modulo p^2 and q^2, which the published library may not do.",
    "Two parties: without Charlie, so that each owner learns which pair it compares. Published: "
    "an estimate of 21.99 ms and 83.78 kbit; 2 d + 3 = 13 exponentiations, d of them short.",
)

Made = tuple[Any, float]


def run(
    side: Annotated[
        int, typer.Option(min=4, help="Records of each owner; all pairs are compared.")
    ] = 8,
    key_bits: ManyKeyBits = (1024, 2048),
    *,
    points: KeptPoints,
) -> Document:
    """A pair of records by the published three-party protocol: Paillier and garbled circuits."""
    tasks = [
        Task(
            f"{bits} bits, {source}",
            {"bench": "linkage-paillier", "side": side, "key_bits": bits, "source": source},
            partial(measured, side, bits, source),
        )
        for bits in key_bits
        for source in SOURCES
    ]
    values = measure("linkage-paillier", tasks, points)
    return document.make(
        "linkage-paillier",
        _tables,
        parameters={"side": side, "key_bits": key_bits},
        points=values,
        published=PUBLISHED,
        notes=NOTES,
    )


def measured(side: int, bits: int, source: str, tell: Tell) -> dict[str, Any]:
    """All pairs of `side` records of each owner, a quarter of them in common."""
    random = np.random.default_rng(1)
    xs = random.integers(0, UB + 1, (side, COLUMNS))
    ys = np.concatenate([xs[: side // 4], random.integers(0, UB + 1, (side - side // 4, COLUMNS))])
    matching = Matching(SquaredDistance((1,) * COLUMNS, 0), UB)
    tell("keys")
    secrets = [make_key(bits, insecure=bits < LEAST_SAFE) for _ in range(2)]
    with watched() as load:
        tell("encrypting")
        (alice, bob), record_s = timed(partial(_encrypted, secrets, source, (xs, ys)))
        pairs = [(i, j) for i in range(side) for j in range(side)]
        charlies = (
            _cipher(secrets[0].public, None, source),
            _cipher(secrets[1].public, None, source),
        )
        tell("Charlie")
        work = partial(randomise, matching, charlies, alice, bob, pairs, SecureRandom())
        tasks, charlie_s = timed(work)
        tell("Alice and Bob")
        owners = _owners(matching, secrets, source, tasks, decide)
        tell("two parties")
        places = np.array(pairs).T
        plain = [rows[at].reshape(-1).tolist() for rows, at in zip((xs, ys), places, strict=True)]
        two = _owners(matching, secrets, source, plain, matches)
    near = matching.rule.distances(xs, ys) <= matching.rule.limit
    expected = {(int(i), int(j)) for i, j in np.argwhere(near)}
    tallies = [charlies[0].tally + charlies[1].tally, *(owner["tally"] for owner in owners)]
    handed = sum(len(t.values) + len(t.other_ids) for t in tasks) * charlies[0].key.ciphertext_bytes
    return {
        "key_bits": bits,
        "source": source,
        "pairs": len(pairs),
        "exact": all(set(owner["links"]) == expected for owner in owners),
        "record_ms": 1000 * record_s / (2 * side),
        "charlie_ms": 1000 * charlie_s / len(pairs),
        "alice_ms": 1000 * owners[0]["cpu_s"] / len(pairs),
        "bob_ms": 1000 * owners[1]["cpu_s"] / len(pairs),
        "bytes": (handed + sum(owner["bytes"] for owner in owners)) / len(pairs),
        "operations": sum(map(_operations, tallies)) / len(pairs),
        "two_parties": {
            "exact": all(
                {pair for pair, found in zip(pairs, owner["links"], strict=True) if found}
                == expected
                for owner in two
            ),
            "alice_ms": 1000 * two[0]["cpu_s"] / len(pairs),
            "bob_ms": 1000 * two[1]["cpu_s"] / len(pairs),
            "bytes": sum(owner["bytes"] for owner in two) / len(pairs),
            "operations": sum(_operations(owner["tally"]) for owner in two) / len(pairs),
        },
        "others": load.others,
    }


def timed(work: Callable[[], Any]) -> Made:
    """Call `work`; return its result and the CPU time of this thread."""
    start = time.thread_time()
    return work(), time.thread_time() - start


def _operations(tally: Tally) -> int:
    """Count the operations that the publication calls exponentiations."""
    return tally.exponentiations + tally.decryptions + tally.randomisers


def _cipher(key: PublicKey, secret: SecretKey | None, source: str) -> Cipher:
    made = PowerRandomisers(key) if source == SOURCES[0] else FreshRandomisers(key, secret)
    made.take(1)  # tables are built before the clock starts
    return Cipher(key, made)


def _encrypted(
    secrets: list[SecretKey], source: str, sides: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> list[Encrypted]:
    return [
        encrypt(_cipher(secret.public, secret, source), range(len(rows)), rows, 0, 0)
        for secret, rows in zip(secrets, sides, strict=True)
    ]


def _owners(
    matching: Matching,
    secrets: list[SecretKey],
    source: str,
    tasks: Any,
    decide: Callable[..., Any],
) -> list[dict[str, Any]]:
    """Alice and Bob decide all pairs, with Charlie's tasks or their own values.

    Time and bytes are without those of starting the session.
    """
    channels = memory_pair()

    def owner(role: int) -> dict[str, Any]:
        secret, channel = secrets[role - 1], channels[role - 1]
        session = Session.start(role, channel, "three parties")
        cipher = _cipher(secrets[0].public, secret if role == 1 else None, source)
        before = channel.traffic.snapshot()
        work = partial(decide, session, matching, cipher, secret, tasks[role - 1])
        links, cpu_s = timed(work)
        sent = (channel.traffic.snapshot() - before).bytes_sent
        return {"links": links, "cpu_s": cpu_s, "bytes": sent, "tally": cipher.tally}

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(owner, (1, 2)))


def _tables(result: Document) -> list[Table]:
    published = ["published", "1024", "16.8", "33.7", "-", "-", "38.94", "13.5", "35", "-"]
    measured = document.table_of(
        "",
        "randomisers | key | record | Charlie | Alice | Bob | slowest | kB | ops | exact",
        "{source} | {key_bits} | {record_ms:.1f} | {charlie_ms:.1f} | {alice_ms:.1f} | "
        "{bob_ms:.1f} | {slowest:.1f} | {bytes:/1e3 .1f} | {operations:g} | {exact:yes}",
        [
            {**point, "slowest": max(point[f"{name}_ms"] for name in ("charlie", "alice", "bob"))}
            for point in result["points"]
        ],
    )
    title = "The published three-party protocol: ms of CPU for a record, for a pair of 5 numbers"
    two = document.table_of(
        "",
        "randomisers | key | Alice | Bob | both | kB | ops | exact",
        "{source} | {key_bits} | {alice_ms:.1f} | {bob_ms:.1f} | {both:.1f} | "
        "{bytes:/1e3 .1f} | {operations:g} | {exact:yes}",
        [
            {**point, **(own := point["two_parties"]), "both": own["alice_ms"] + own["bob_ms"]}
            for point in result["points"]
        ],
    )
    told = ["published", "1024", "-", "-", "21.99", "10.5", "13", "-"]
    return [
        document.table(title, measured["columns"], [published, *measured["rows"]]),
        document.table("The two-party form, of a pair", two["columns"], [told, *two["rows"]]),
    ]
