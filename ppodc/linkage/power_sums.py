"""Numbers from their power sums: what an owner does to read several links of one row.

With p_r = t_1^r + .. + t_n^r for r = 1..n, Newton's identities give the elementary symmetric
polynomials, r e_r = sum_i (-1)^(i-1) e_(r-i) p_i, and the t are the roots of
x^n - e_1 x^(n-1) + e_2 x^(n-2) - ... All numbers are whole and exact.
"""

from collections.abc import Sequence


def numbers(sums: Sequence[int], largest: int) -> list[int] | None:
    """The whole numbers 0..largest with these power sums, rising; None if there are none such."""
    polynomial = _polynomial(sums)
    found: list[int] = []
    at = largest
    while polynomial is not None and len(polynomial) > 1:
        root = _largest_root(polynomial, at)
        if root is None:
            return None
        found.append(root)
        polynomial, at = _divided(polynomial, root), root
    return None if polynomial is None else sorted(found)


def _polynomial(sums: Sequence[int]) -> list[int] | None:
    """Its coefficients, the highest power first; None if one is not whole."""
    e = [1]
    for r in range(1, len(sums) + 1):
        total = sum((-1) ** (i - 1) * e[r - i] * sums[i - 1] for i in range(1, r + 1))
        if total % r:
            return None
        e.append(total // r)
    return [(-1) ** r * value for r, value in enumerate(e)]


def _largest_root(polynomial: Sequence[int], start: int) -> int | None:
    """By Newton's method from above, whose steps never pass the largest of whole roots."""
    x = start
    while x >= 0:
        value = slope = 0
        for coefficient in polynomial:
            slope = slope * x + value
            value = value * x + coefficient
        if value == 0:
            return x
        if value < 0 or slope <= 0:
            return None  # above all roots both are positive
        x -= max(1, value // slope)
    return None


def _divided(polynomial: Sequence[int], root: int) -> list[int]:
    """The polynomial without one of its roots (Horner)."""
    out: list[int] = []
    carried = 0
    for coefficient in polynomial[:-1]:
        carried = carried * root + coefficient
        out.append(carried)
    return out
