"""Errors of distances that are estimated from bit vectors: adjusting, and the vertical form.

Part of `ppodc bench ldp privbv`. One far pair that is believed by mistake spoils an adjusted
matrix, so single draws scatter widely: every figure is the median of ten.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.bench.local_dp.scores import seeded
from ppodc.local_dp.published.bit_codes import MAX_BITS, bit_vector, random_centres
from ppodc.local_dp.published.bit_estimates import DistanceScale, attribute_bits
from ppodc.local_dp.published.bit_reports import BitReports, privbv_as_published
from ppodc.local_dp.published.distances import adjusted, published_limit, signed_distances
from ppodc.local_dp.published.flips import Flips
from ppodc.local_dp.report_streams import insecure_streams

UNITS = 100  # encoded units in one unit of the range
BITS = 1000
DRAWS = 10
COLUMNS = ("raw", "line 3", "2t - 3 sigma", "2t - 4 sigma", "t = 12.5")
SETTINGS = ((100, None), (1000, None), (2000, None), (1000, 1.0), (1000, 2.0), (1000, 4.0))
VERTICAL = ("each attribute", "vertical", "vertical, s d/2 bits")


def distance_errors() -> list[dict[str, Any]]:
    """Uniform in [0, 25], t = 3, 100 values: mean absolute error, raw and adjusted."""
    points = []
    for bits, b in SETTINGS:  # b None: nothing is flipped
        draws = [_errors(bits, b, draw) for draw in range(DRAWS)]
        found = {name: float(np.median([errors[name] for errors in draws])) for name in COLUMNS}
        points.append({"what": "distances", "bits": bits, "b": b, **found})
    return points


def _errors(bits: int, b: float | None, draw: int) -> dict[str, float]:
    ub, t = 25 * UNITS, 3 * UNITS
    records = (insecure_streams(100, 30 + draw).words(1) % (ub + 1)).astype(np.int64)
    exact = np.abs(records - records.T) / UNITS
    code = bit_vector(ub, random_centres(ub, t, bits, seeded(bits, draw)), t)
    narrow = BitReports(code, Flips.symmetric(b or 1.0, bits), 1)
    scale = DistanceScale.of(narrow.flips if b else None, bits, 25, 3)
    raw = signed_distances(_strings(narrow, records, b, 50 + draw), scale)
    wide = privbv_as_published(1, ub, b=b or 1.0, bits=bits, t=ub // 2, random=seeded(5, draw))
    wide_scale = DistanceScale.of(wide.flips if b else None, bits, 25, 12.5)
    found = {
        "raw": raw,
        "line 3": adjusted(raw, published_limit(raw)),
        "2t - 3 sigma": adjusted(raw, scale.saturation(3)),
        "2t - 4 sigma": adjusted(raw, scale.saturation(4)),
        "t = 12.5": signed_distances(_strings(wide, records, b, 70 + draw), wide_scale),
    }
    return {name: float(np.abs(distances - exact).mean()) for name, distances in found.items()}


def springboard_errors() -> list[dict[str, Any]]:
    """Two groups farther than 2t apart, t = 3: adjusted alone, and with invented values between.

    An owner adds a value every t; they are encoded and flipped as records are. Only distances of
    real values count.
    """
    points, ub, t, bits = [], 25 * UNITS, 3 * UNITS, 1000
    between = np.arange(0, ub + 1, t)[:, None]
    for b in (None, 4.0):
        draws: list[tuple[float, float]] = []
        for draw in range(DRAWS):
            offsets = insecure_streams(60, 90 + draw).words(1) % (5 * UNITS)
            real = offsets.astype(np.int64) + np.repeat([[0], [20 * UNITS]], 30, axis=0)
            exact = np.abs(real - real.T) / UNITS
            code = bit_vector(ub, random_centres(ub, t, bits, seeded(8, draw)), t)
            made = BitReports(code, Flips.symmetric(b or 1.0, bits), 1)
            scale = DistanceScale.of(made.flips if b else None, bits, 25, 3)
            errors = []
            for records in (real, np.concatenate([real, between])):
                raw = signed_distances(_strings(made, records, b, 95 + draw), scale)
                found = adjusted(raw, scale.saturation(4))[: len(real), : len(real)]
                errors.append(float(np.abs(found - exact).mean()))
            draws.append((errors[0], errors[1]))
        alone, helped = np.median(draws, axis=0).tolist()
        points.append({"what": "springboards", "b": b, "alone": alone, "with them": helped})
    return points


def _strings(
    mechanism: BitReports, records: NDArray[np.int64], b: float | None, seed: int
) -> NDArray[np.uint64]:
    """Flipped, or as they are without b."""
    if b is None:
        return mechanism.encode(records)
    return mechanism.perturb(records, insecure_streams(len(records), seed))


def vertical_errors() -> list[dict[str, Any]]:
    """Unit cube, s = 1000, b = 1, two parties: each attribute by itself, and the vertical form."""
    points, ub, pairs = [], 100, 300
    for columns in (2, 8, 32):
        draws = (insecure_streams(2 * pairs, columns).words(columns) % (ub + 1)).astype(np.int64)
        exact = np.sqrt(((draws[:pairs] - draws[pairs:]) ** 2).sum(axis=1)) / ub
        mechanism = privbv_as_published(columns, ub, b=1, bits=BITS, t=ub // 2, random=seeded(9))
        scale = DistanceScale.of(mechanism.flips, BITS, 1.0, 0.5)
        bits = attribute_bits(mechanism.perturb(draws, insecure_streams(2 * pairs, 10)), mechanism)
        hamming = (bits[:pairs] != bits[pairs:]).sum(axis=2)
        squares = (scale.distances(hamming) ** 2).sum(axis=1) - columns * scale.bias_of_square
        found = {VERTICAL[0]: float(np.abs(np.sqrt(np.maximum(squares, 0)) - exact).mean())}
        for name, many in zip(VERTICAL[1:], (BITS, BITS * columns // 2), strict=True):
            found[name] = _vertical_error(draws, exact, columns, ub, many)
        points.append({"what": "vertical", "columns": columns, **found})
    return points


def _vertical_error(
    draws: NDArray[np.int64], exact: NDArray[np.float64], columns: int, ub: int, bits: int
) -> float:
    """Both parties' S and P of every pair, encoded once in 0..mu_max, flipped with b = 1.

    S - P is the squared distance over a party's attributes, mu_max = 2 (attributes) ub^2. Every
    pair of records needs an encoding of its own, so a record's budget grows by n - 1.
    """
    pairs, half = len(draws) // 2, columns // 2
    total = np.zeros(pairs)
    for number, part in enumerate((slice(0, half), slice(half, columns))):
        a, b = draws[:pairs, part], draws[pairs:, part]
        terms = np.stack([(a * a + b * b).sum(axis=1), (2 * a * b).sum(axis=1)], axis=1)
        span = 2 * a.shape[1] * ub * ub
        scale = DistanceScale.of(Flips.symmetric(1, 1), bits, span / ub**2, span / ub**2 / 2)
        total += scale.distances(_hamming(terms, span, bits, number))
    return float(np.abs(np.sqrt(np.maximum(total, 0)) - exact).mean())


def _hamming(terms: NDArray[np.int64], span: int, bits: int, number: int) -> NDArray[np.int64]:
    """Differing bits of S and P; strings longer than a code may be are made of several codes."""
    found = np.zeros(len(terms), np.int64)
    for start in range(0, bits, MAX_BITS):
        mechanism = privbv_as_published(
            2, span, b=1, bits=min(MAX_BITS, bits - start), t=span // 2,
            random=seeded(11, number, start),
        )  # fmt: skip
        streams = insecure_streams(len(terms), 12 + 2 * start + number)
        strings = attribute_bits(mechanism.perturb(terms, streams), mechanism)
        found += (strings[:, 0] != strings[:, 1]).sum(axis=1)
    return found
