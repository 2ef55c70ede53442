"""SMP: products of encrypted values.

C1 holds E(a), E(b); it sends E(a + ra), E(b + rb), packed; C2 decrypts and returns
E((a + ra)(b + rb)); C1 removes a rb, b ra and ra rb. One question may carry many values and ask
for many sums of products of them, for example all l squares of a distance as one number.

Who learns what: C2 sees masked values only (see masking.py). C1 sees fresh ciphertexts.

Per product: two exponentiations by a mask (one for a square), one inversion per returned number,
one decryption per ciphertext of packed values. One round.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from gmpy2 import mpz

from ppodc.crypto.paillier import Ciphertexts
from ppodc.errors import WireError
from ppodc.kmeans.paillier.exchange import Ask, Cloud1, Cloud2, Step, answers
from ppodc.kmeans.paillier.masking import mask, slot_width, unpack
from ppodc.transport.wire import Array, Body

Natural = Annotated[int, msgspec.Meta(ge=0, le=1 << 32)]
Term = tuple[int, int]
MOST_VALUES = 1 << 22


class Products(Body, frozen=True):
    """`values` batches of `rows` numbers. Which of them to multiply and add is in two arrays: the
    pairs of batches (n, 2), and how many of them each output takes."""

    rows: Natural
    values: Natural
    slot: Natural
    total: bool


def multiply(
    c1: Cloud1,
    values: Sequence[Ciphertexts],
    bits: int,
    outputs: Sequence[Sequence[Term]],
    *,
    total: bool = False,
) -> Step[list[Ciphertexts]]:
    """Per output the batch of sums of values[i] * values[j], row by row.

    All values are below 2^bits in size. With `total` the rows are added up too, at C2 before it
    encrypts: one number per output.
    """
    rows = len(values[0])
    sent, masks = mask(c1, Ciphertexts.concat(list(values)), bits)
    r = [masks[i * rows : (i + 1) * rows] for i in range(len(values))]
    pairs = np.array([term for output in outputs for term in output], dtype=np.uint32)
    lengths = np.array([len(output) for output in outputs], dtype=np.uint32)
    body = Products(rows, len(values), slot_width(bits), total)
    (reply,) = yield Ask("products", body, (sent, pairs, lengths))
    answered = c1.read(reply, len(outputs) * (1 if total else rows))
    results = []
    for position, output in enumerate(outputs):
        surplus, constants = _surplus(c1, values, r, output)
        if total:
            masked = answered[position : position + 1]
            surplus, constants = c1.cipher.sum(surplus), [sum(constants)]
        else:
            masked = answered[position * rows : (position + 1) * rows]
        unmasked = c1.cipher.subtract(masked, surplus)
        results.append(c1.cipher.add_plain(unmasked, [-c for c in constants]))
    return results


def _surplus(
    c1: Cloud1, values: Sequence[Ciphertexts], r: list[list[mpz]], output: Sequence[Term]
) -> tuple[Ciphertexts, list[mpz]]:
    """Row by row what the masks added: sum of v_i r_j + v_j r_i (encrypted), of r_i r_j (plain)."""
    parts = []
    constants = [mpz(0)] * len(values[0])
    for i, j in output:
        if i == j:
            parts.append(c1.cipher.power(values[i], [2 * x for x in r[i]]))
        else:
            parts += [c1.cipher.power(values[i], r[j]), c1.cipher.power(values[j], r[i])]
        constants = [c + x * y for c, x, y in zip(constants, r[i], r[j], strict=True)]
    surplus = parts[0]
    for part in parts[1:]:
        surplus = c1.cipher.add(surplus, part)
    return surplus, constants


@answers("products", Products, arrays=3)
def answer_products(c2: Cloud2, ask: Products, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: sums of products of masked values, freshly encrypted."""
    sent, pairs, lengths = arrays
    outputs = _read_terms(ask, pairs, lengths)
    masked = unpack(c2, sent, ask.rows * ask.values, ask.slot)
    batches = [masked[i * ask.rows : (i + 1) * ask.rows] for i in range(ask.values)]
    results: list[int] = []
    for output in outputs:
        rows = [
            sum(batches[i][row] * batches[j][row] for i, j in output) for row in range(ask.rows)
        ]
        results += [sum(rows)] if ask.total else rows
    return [c2.cipher.encrypt(results).to_array()]


def _read_terms(ask: Products, pairs: Array, lengths: Array) -> list[list[Term]]:
    """The terms of each output, after all limits are checked: nothing large is made before."""
    shaped = pairs.ndim == 2 and pairs.shape[1] == 2 and lengths.ndim == 1
    if not shaped or not len(lengths) or lengths.min() < 1 or lengths.sum() != len(pairs):
        raise WireError("the terms of a question about products do not fit together.")
    most = max(ask.rows * ask.values, ask.rows * len(pairs), len(lengths))
    if not ask.values or most > MOST_VALUES:
        raise WireError(f"a question about products is limited to {MOST_VALUES} values and terms.")
    if pairs.max() >= ask.values:
        raise WireError("a product names a value that was not sent.")
    ends = np.cumsum(lengths).tolist()
    terms: list[Term] = [(i, j) for i, j in pairs.tolist()]
    return [terms[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)]


def smp(c1: Cloud1, a: Ciphertexts, b: Ciphertexts, bits: int) -> Step[Ciphertexts]:
    """E(a * b), element by element; both below 2^bits in size."""
    (product,) = yield from multiply(c1, [a, b], bits, [[(0, 1)]])
    return product


def smp_except_one(c1: Cloud1, factors: Ciphertexts, bits: int) -> Step[Ciphertexts]:
    """Per position h the product of all factors but the h-th: 3k products instead of k^2.

    Products of all that stand before h, of all that stand behind h (both chains in the same
    questions), then one product of the two.
    """
    k = len(factors)
    before = after = c1.constant(1, 1)
    befores, afters = [before], [after]
    for h in range(k - 1):
        pair = Ciphertexts.concat([before, after])
        following = Ciphertexts.concat([factors[h : h + 1], factors[k - 1 - h : k - h]])
        products = yield from smp(c1, pair, following, bits)
        before, after = products[:1], products[1:]
        befores.append(before)
        afters.append(after)
    return (yield from smp(c1, Ciphertexts.concat(befores), Ciphertexts.concat(afters[::-1]), bits))
