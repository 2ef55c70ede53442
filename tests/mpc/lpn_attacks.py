"""The cost of known attacks on regular LPN with a local code, for a set of parameters.

A batch shows n rows, each the sum of ten of k secret bits and noise; every block of n / t rows has
one 1 of noise (`noise`). `costs` gives log2 of the operations of each attack:

* *Pooled Gauss* (Esser, Kübler and May, CRYPTO 2017; over regular noise Hazay, Orsini, Scholl and
  Soria-Vazquez, CRYPTO 2018): hope that equally many rows of each block, k in all, have no noise.
* *Information set decoding* for regular noise (Esser and Santini, eprint 2023/1568): the same with
  p noisy rows among them, found by enumeration in two lists, or by representations in four.
* *Statistical decoding*, by the formula of Liu, Wang, Yang and Yu, eprint 2022/712.
* *Algebraic* (Briaud and Oygarden, eprint 2023/176): rows of one block multiply to 0. Guess mu rows
  without noise in f blocks, then solve the equations of degree d by linear algebra, where d is the
  first degree at which (1 + (b - 1) z)^(t - f) (1 + (b - mu - 1) z)^f / (1 + z)^(n - k) has no
  positive coefficient, b = n / t.

All are tried on the whole batch and on *parts* of it, since the code is local: a part x of the
secret bits has about n x^10 rows to itself, enough to solve for it if n x^10 >= x k. Then x k rows
without noise are needed instead of k. Drawing bits at random reaches x = (k / n)^(1/9). `sparsest`
is the smallest part that exists at all in a random code, by the first moment; nobody is known to
find it, and "existing part" counts as if its finder worked for nothing.

*In the attacker's favour*: a linear system of size s costs s^2 (it is sparse; usual is s^2.8), one
of degree d its number of monomials squared, a list its length, memory nothing, each block's sum a
free equation. So figures are lower than those of the papers, for the same attack; Ferret's own
sets come out below 128. They say nothing about attacks that are not listed, or not yet known.
"""

from collections.abc import Iterator
from math import ceil, comb, lgamma, log, log2

from ppodc.mpc.ot.silent.noise import LOCALITY, Noise

_MOST_NOISY, _MOST_EXTRA = 40, 16  # rows of noise in an information set, and beyond in its lists
_DEGREES = range(2, 9)
_PARTS = (1 / 64, 1 / 16, 1 / 4)  # of the way to the whole: sizes that are tried


def costs(noise: Noise) -> dict[str, float]:
    """Bits by the name of the attack."""
    n, k, t = noise.n, noise.k, noise.t
    found = (n / k) ** (-1 / (LOCALITY - 1))
    parts = [found + (1 - found) * step for step in _PARTS]
    existing = sparsest(n / k) * k
    return {
        "pooled Gauss": pooled_gauss(n, k - t, t),
        "enumeration": enumeration(n, k - t, t),
        "representations": representations(n, k - t, t),
        "statistical decoding": log2(k + 1) + 2 * t * log2((n - t + 1) / (n - k - t)),
        "algebraic": algebraic(noise),
        "part, pooled Gauss": pooled_gauss(n, found * k, t),
        "part, enumeration": enumeration(n, found * k, t),
        "part, representations": representations(n, found * k, t),
        "part, algebraic": min(algebraic(noise, x) for x in parts),
        "existing part, pooled Gauss": pooled_gauss(n, existing, t),
        "existing part, enumeration": enumeration(n, existing, t),
        "existing part, representations": representations(n, existing, t),
    }


def pooled_gauss(n: float, k: float, t: int) -> float:
    """k rows without noise, from t blocks."""
    return -t * log2(1 - k / n) + 2 * log2(k)


def enumeration(n: float, k: float, t: int) -> float:
    """p noisy rows among k + l, each half of them in half of the blocks; the lists meet on l."""
    best = pooled_gauss(n, k, t)
    for p in range(2, _MOST_NOISY, 2):
        length = _log_binomial(t / 2, p / 2) + p / 2 * log2(k / t)
        for l in range(int(length / 2), ceil(length) + 1):
            each = max(2 * log2(k), 1 + length, 2 * length - l)
            best = min(best, each - _chance(n, k + l, t, p))
    return best


def representations(n: float, k: float, t: int) -> float:
    """`enumeration` from four lists, each noisy row written in several ways (depth 2)."""
    best = pooled_gauss(n, k, t)
    for p in range(4, _MOST_NOISY, 4):
        for extra in range(0, _MOST_EXTRA, 2):
            own = p / 2 + extra
            ways = 2 * (_log_binomial(p / 2, p / 4) + _log_binomial(t / 2 - p / 2, extra / 2))
            base = _log_binomial(t / 2, own / 2) + own / 2 * log2(k / t)
            for l in range(int(base / 2), int(3 * base), 2):
                inner = min(ways, l)
                joined = max(0.0, 2 * base - inner)
                last = max(0.0, 2 * joined - (l - inner))
                each = max(2 * log2(k), 2 + base, 1 + joined, last)
                best = min(best, each - _chance(n, k + l, t, p))
    return best


def algebraic(noise: Noise, part: float = 1.0) -> float:
    """Quadratic equations of the blocks; of a part of the secret bits with the rows it has."""
    t, block = noise.t, noise.n // noise.t
    own = block if part == 1 else int(block * part**LOCALITY)
    k = noise.k - t if part == 1 else int(noise.k * part)
    checks = max(1, own * t - int(noise.k * part))
    width = own - 1 if part == 1 else own  # the block's sum gives one
    best = float("inf")
    for d in _DEGREES:
        for mu, f in _guesses(width, t, checks, k, d):
            left = max(d + 1, k - f * mu)
            best = min(best, -f * log2(1 - mu / block) + 2 * _log_binomial(left, d))
    return best


def _guesses(width: int, t: int, checks: int, k: int, d: int) -> Iterator[tuple[int, int]]:
    """For every mu the fewest blocks f for which degree d does."""
    for mu in range(min(width, 2 * k // t + 2)):
        low, high = 0, t if mu * t < k else (k - 1) // mu
        if _coefficient(width, t, checks, high, mu, d) > 0:
            continue
        while low < high:
            middle = (low + high) // 2
            if _coefficient(width, t, checks, middle, mu, d) > 0:
                low = middle + 1
            else:
                high = middle
        yield mu, low


def _coefficient(width: int, t: int, checks: int, f: int, mu: int, d: int) -> int:
    """Of z^d in (1 + width z)^(t - f) (1 + (width - mu) z)^f / (1 + z)^checks."""
    kept = [comb(t - f, i) * width**i for i in range(d + 1)]
    guessed = [comb(f, i) * (width - mu) ** i for i in range(d + 1)]
    under = [(-1) ** i * comb(checks + i - 1, i) for i in range(d + 1)]
    return sum(
        kept[i] * guessed[j] * under[d - i - j] for i in range(d + 1) for j in range(d + 1 - i)
    )


def sparsest(ratio: float) -> float:
    """The smallest part x of the secret bits that may have x k of `ratio` k rows to itself.

    Below it, the expected number of such parts in a random local code is less than 1.
    """
    low, high = 0.01, 1.0
    while high - low > 1e-4:
        x = (low + high) / 2
        mean = ratio * x**LOCALITY
        rare = x * log(x / mean) - x + mean if mean < x else 0.0
        choices = -x * log(x) - (1 - x) * log(1 - x)
        low, high = (low, x) if choices >= rare else (x, high)
    return high


def _chance(n: float, k: float, t: int, p: int) -> float:
    """log2 of: p of t blocks have their noise among the k of n rows, half of them in each half."""
    return 2 * _log_binomial(t / 2, p / 2) + p * log2(k / n) + (t - p) * log2(1 - k / n)


def _log_binomial(n: float, r: float) -> float:
    return (lgamma(n + 1) - lgamma(r + 1) - lgamma(n - r + 1)) / log(2)
