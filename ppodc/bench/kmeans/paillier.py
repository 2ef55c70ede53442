"""Speed of Paillier operations here and in phe, in the same run.

Every case is measured in rounds that alternate between the two libraries, so that whatever slows
the machine down slows both; figures are medians over the rounds, and so is the ratio of the two
in a round. A goal is met or missed only when the middle half of the rounds agrees; otherwise it is
"level": the difference is within the noise. phe runs with gmpy2, with the
same key, through the cheapest call of its public interface.
"""

import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gmpy2
import typer
from gmpy2 import mpz

from ppodc.bench import document
from ppodc.bench.document import Document, Table
from ppodc.bench.options import KeyBits
from ppodc.crypto.paillier import KEY_BITS, Ciphertexts, SecretKey, generate, generate_insecure
from ppodc.crypto.paillier_arithmetic import Cipher, RandomiserSource
from ppodc.crypto.randomisers import FreshRandomisers, PooledRandomisers, PowerRandomisers
from ppodc.errors import InputError

_ROUNDS = 15
_POOLED = 20_000
_MANY = 1_000_000
_BATCH = 256  # numbers that are taken again and again

Batch = Callable[[int], object]


@dataclass(frozen=True)
class _Case:
    """One operation, as functions that do it a given number of times; at most `limit` a round."""

    name: str
    ours: Batch
    phe: Batch
    goal: float | None = None
    limit: int = 1 << 20


class _Recycled:
    """A few randomisers used again and again, for ciphertexts that are thrown away."""

    def __init__(self, source: RandomiserSource) -> None:
        self._values = source.take(64)

    def take(self, count: int) -> list[mpz]:
        return (self._values * (count // 64 + 1))[:count]


def run(
    key_bits: KeyBits = 2048,
    seconds: Annotated[float, typer.Option(help="Approximate duration.")] = 30,
) -> Document:
    """Encrypt, decrypt, randomise, multiply by plain and add, side by side with `phe`."""
    phe = _import_phe()
    secret = generate(key_bits) if key_bits in KEY_BITS else generate_insecure(key_bits)
    with tempfile.TemporaryDirectory() as folder:
        recycled = _Recycled(FreshRandomisers(secret.public))
        pool = PooledRandomisers(Path(folder), secret.public, recycled)
        pool.fill(_POOLED)
        sources, build_seconds = _fresh_sources(secret)
        figures = _measure(_cases(secret, phe, pool, *sources), seconds)
        pool.close()
    built = ", ".join(f"{name} {took:.2f} s" for name, took in build_seconds.items())
    gmp = f"{gmpy2.mp_version()}, gmpy2 {gmpy2.version()}."
    return document.make(
        "paillier",
        _tables,
        key_bits=key_bits,
        rounds=_ROUNDS,
        gmpy2=gmpy2.version(),
        gmp=gmpy2.mp_version(),
        phe=str(phe.__version__),
        table_seconds=build_seconds,
        cases=figures,
        notes=[f"Tables, built once: {built}. {gmp}"],
    )


def _tables(result: Document) -> list[Table]:
    rows = []
    for case in result["cases"]:
        low, high = (_ratio(ratio) for ratio in case["ratio_quartiles"])
        times = (_readable(case["seconds"]), _readable(case["phe_seconds"]))
        row = (case["name"], *times, _ratio(case["ratio"]), f"{low}-{high}", _verdict(case))
        rows.append(row)
    title = f"Paillier, {result['key_bits']} bits: median of {result['rounds']} rounds"
    columns = ("", "here", f"phe {result['phe']}", "ratio", "quartiles", "goal")
    return [document.table(title, columns, rows)]


def _verdict(case: dict[str, Any]) -> str:
    goal, (low, high) = case["goal"], case["ratio_quartiles"]
    if goal is None:
        return ""
    return f"{goal:g} {'met' if low >= goal else 'missed' if high < goal else 'level'}"


def _import_phe() -> Any:
    try:
        import phe
        import phe.util
    except ImportError:
        raise InputError("This measures beside phe; run: pip install 'ppodc[bench]'") from None
    if not phe.util.HAVE_GMP:
        raise InputError("phe does not find gmpy2, so the comparison would not be fair to it.")
    return phe


def _fresh_sources(
    secret: SecretKey,
) -> tuple[tuple[FreshRandomisers, FreshRandomisers, FreshRandomisers], dict[str, float]]:
    """Sources with their large tables ready, and how long each table took."""
    sources = (
        FreshRandomisers(secret.public, insecure_short_exponents=True),
        FreshRandomisers(secret.public),
        FreshRandomisers(secret.public, secret),
    )
    seconds = {}
    for name, source in zip(("cloud 1, short", "cloud 1", "cloud 2"), sources, strict=True):
        start = time.perf_counter()
        source.prepare(_MANY)
        seconds[name] = time.perf_counter() - start
    return sources, seconds


class _Beside:
    """Equal plaintexts and ciphertexts for ppodc and phe, which work on them in turns."""

    def __init__(self, secret: SecretKey, phe: Any, randomisers: FreshRandomisers) -> None:
        self.secret, self.phe = secret, phe
        n = int(secret.public.n)
        self.phe_key = phe.PaillierPublicKey(n)
        self.phe_secret = phe.PaillierPrivateKey(self.phe_key, int(secret.p), int(secret.q))
        self._plaintexts = [secrets.randbelow(n) for _ in range(_BATCH)]
        self._batch = Cipher(secret.public, randomisers).encrypt(self._plaintexts)
        self.numbers = [phe.EncryptedNumber(self.phe_key, int(c), 0) for c in self._batch.values]

    def some(self, count: int) -> Ciphertexts:
        return self._batch.take(i % _BATCH for i in range(count))

    def encrypt(self, cipher: Cipher) -> Batch:
        return lambda count: cipher.encrypt([self._plaintexts[i % _BATCH] for i in range(count)])

    def phe_encrypt(self, count: int) -> object:
        return [self.phe_key.raw_encrypt(self._plaintexts[i % _BATCH]) for i in range(count)]

    def phe_power(self, count: int) -> object:
        powmod, draw = self.phe.util.powmod, self.phe_key.get_random_lt_n
        n, n2 = int(self.secret.public.n), int(self.secret.public.n2)
        return [powmod(draw(), n, n2) for _ in range(count)]

    def phe_add(self, count: int) -> object:
        return [self.numbers[i % _BATCH] + self.numbers[-i % _BATCH] for i in range(count)]

    def phe_decrypt(self, count: int) -> object:
        return [self.phe_secret.raw_decrypt(int(c)) for c in self.some(count).values]

    def multiply(self, name: str, cipher: Cipher, factor: int) -> _Case:
        return _Case(
            name,
            lambda count: cipher.power(self.some(count), [factor] * count),
            lambda count: [self.numbers[i % _BATCH] * factor for i in range(count)],
        )


def _cases(
    secret: SecretKey,
    phe: Any,
    pool: PooledRandomisers,
    short: FreshRandomisers,
    long: FreshRandomisers,
    crt: FreshRandomisers,
) -> list[_Case]:
    key, n = secret.public, int(secret.public.n)
    both, pooled = _Beside(secret, phe, long), Cipher(key, pool)
    # phe takes factors up to n/3 only.
    full, word = secrets.randbelow(n // 8) + n // 8, secrets.randbits(63) | 1 << 63
    most = _POOLED // (2 * _ROUNDS)
    return [
        _Case("encrypt, pooled", both.encrypt(pooled), both.phe_encrypt, 100, most),
        _Case("encrypt, fresh", both.encrypt(Cipher(key, long)), both.phe_encrypt),
        _Case("randomiser at cloud 1", long.take, both.phe_power),
        _Case("  with short exponents", short.take, both.phe_power, 10),
        _Case("randomiser at cloud 2", crt.take, both.phe_power, 10),
        _Case("randomiser, r^n", PowerRandomisers(key).take, both.phe_power),
        _Case("decrypt", lambda count: secret.decrypt(both.some(count)), both.phe_decrypt, 1),
        both.multiply("multiply by 64 bits", pooled, word),
        both.multiply("multiply, full length", pooled, full),
        _Case("add", lambda count: pooled.add(both.some(count), both.some(count)), both.phe_add),
    ]


def _measure(cases: list[_Case], seconds: float) -> list[dict[str, Any]]:
    share = seconds / (2 * len(cases) * (_ROUNDS + 1))
    counts = [(_count(c.ours, share, c.limit), _count(c.phe, share, c.limit)) for c in cases]
    times: list[tuple[list[float], list[float]]] = [([], []) for _ in cases]
    for turn in range(_ROUNDS):
        for case, (here, there), (ours, phe) in zip(cases, counts, times, strict=True):
            pair = [(ours, case.ours, here), (phe, case.phe, there)]
            for seen, batch, count in pair[:: 1 if turn % 2 else -1]:
                seen.append(_seconds_each(batch, count))
    figures = []
    for case, (ours, phe) in zip(cases, times, strict=True):
        ratios = [there / here for here, there in zip(ours, phe, strict=True)]
        figures.append(
            {
                "name": case.name,
                "seconds": statistics.median(ours),
                "phe_seconds": statistics.median(phe),
                "ratio": statistics.median(ratios),
                "ratio_quartiles": statistics.quantiles(ratios, n=4)[::2],
                "goal": case.goal,
            }
        )
    return figures


def _count(batch: Batch, share: float, limit: int) -> int:
    """Count the operations that fit into a round's share of the time; this also warms up."""
    return min(max(2, int(share / _seconds_each(batch, 2))), limit)


def _seconds_each(batch: Batch, count: int) -> float:
    start = time.perf_counter()
    batch(count)
    return (time.perf_counter() - start) / count


def _ratio(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def _readable(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"
