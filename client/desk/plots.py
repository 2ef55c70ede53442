"""Plots as SVG: geometry in attributes, colours by class, every name escaped."""

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from client.desk.pages import number
from client.desk.table_file import Histogram
from ppodc.records.schema import Column

_MARKS = (
    Markup('<circle r="4.2"/>'),
    Markup('<rect x="-3.8" y="-3.8" width="7.6" height="7.6"/>'),
    Markup('<path d="M0-5 4.8 3.6H-4.8Z"/>'),
    Markup('<path d="M0-5.4 5.4 0 0 5.4-5.4 0Z"/>'),
    Markup('<path d="M-1.5-5h3v3.5H5v3H1.5V5h-3V1.5H-5v-3h3.5Z"/>'),
    Markup('<path d="M-5-3.2H5L0 5Z"/>'),
)
MOST_POINTS = 2000  # own rows that a scatter plot draws


def sign(cluster: int) -> Markup:
    """The mark of a cluster, beside its number."""
    return Markup('<svg class="sign c{}" viewBox="-6 -6 12 12" aria-hidden="true">{}</svg>').format(
        cluster % 6, _MARKS[cluster % 6]
    )


def share(part: float, whole: float, cluster: int) -> Markup:
    """A bar beside a number."""
    width = 0.0 if whole <= 0 else max(0.0, min(144.0, 144 * part / whole))
    return Markup(
        '<svg class="mini" viewBox="0 0 144 28" aria-hidden="true"><rect class="rest" y="9" '
        'width="144" height="10" rx="2"/><rect class="c{}" y="9" width="{}" height="10" rx="2"/>'
        "</svg>"
    ).format(cluster % 6, _at(width))


def spread(histogram: Histogram) -> Markup:
    """A histogram as wide as a cell of a table."""
    most, wide = max(*histogram.counts, 1), 144 / len(histogram.counts)
    bars = Markup("").join(
        Markup('<rect class="bars" x="{}" y="{}" width="{}" height="{}"/>').format(
            _at(place * wide), _at(26 - 24 * height / most), _at(wide - 1), _at(24 * height / most)
        )
        for place, height in enumerate(histogram.counts)
        if height
    )
    return Markup(
        '<svg class="mini" viewBox="0 0 144 28" aria-hidden="true">{}'
        '<path class="axis" d="M0 26.5H144"/></svg>'
    ).format(bars)


def histogram(found: Histogram, column: Column) -> Markup:
    """An owner's values between the public limits, and how many lie outside."""
    left, right, top, floor = 48.0, 632.0, 24.0, 182.0
    outside = found.below + found.above
    most = max(*found.counts, found.below, found.above, 1)
    ticks = [tick for tick in _steps(0, most) if tick == int(tick)]
    high = max(ticks[-1], most)
    wide = (right - left) / len(found.counts)

    def up(value: float) -> float:
        return floor - (floor - top) * value / high

    parts = [_gridline(left, right, up(tick), number(tick)) for tick in ticks]
    for place, height in enumerate(found.counts):
        if height:
            parts.append(
                Markup('<rect class="bars" x="{}" y="{}" width="{}" height="{}"/>').format(
                    _at(left + place * wide + 1),
                    _at(up(height)),
                    _at(wide - 2),
                    _at(floor - up(height)),
                )
            )
    for x, limit, side in ((left, column.low, ""), (right, column.high, "e")):
        parts.append(
            Markup(
                '<line class="bound" x1="{0}" x2="{0}" y1="16" y2="{1}"/>'
                '<text class="t {2}" x="{0}" y="12">limit {3}</text>'
            ).format(_at(x), floor, side, number(limit))
        )
    for count, x, words in ((found.below, 22.0, "below"), (found.above, 668.0, "above")):
        if count:
            parts.append(
                Markup(
                    '<rect class="bars out" x="{}" y="{}" width="14" height="{}"/>'
                    '<text class="m t" x="{}" y="{}">{}</text><text class="m" x="{}" y="200">{}'
                    "</text>"
                ).format(
                    _at(x - 7),
                    _at(up(count)),
                    _at(floor - up(count)),
                    x,
                    _at(up(count) - 5),
                    count,
                    x,
                    words,
                )
            )
    said = f"{sum(found.counts)} values between the limits, {outside} outside."
    return _figure(720, 210, f"{column.name} in your file", said, parts)


def scatter(
    own: Sequence[tuple[float, float, int]],
    centres: Sequence[tuple[float, float, int]],
    across: Column,
    upward: Column,
) -> Markup:
    """Own rows by cluster, and the centres over two columns; both as (x, y, cluster)."""
    left, right, top, floor = 56.0, 700.0, 14.0, 388.0

    def x(value: float) -> float:
        return left + (right - left) * (value - across.low) / (across.high - across.low)

    def y(value: float) -> float:
        return floor - (floor - top) * (value - upward.low) / (upward.high - upward.low)

    parts = [
        Markup('<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
               '<text class="m" x="{0}" y="{3}">{4}</text>').format(
            _at(x(tick)), top, floor, floor + 18, number(tick))
        for tick in _steps(across.low, across.high)
    ]  # fmt: skip
    parts += [
        _gridline(left, right, y(tick), number(tick)) for tick in _steps(upward.low, upward.high)
    ]
    step = max(1, math.ceil(len(own) / MOST_POINTS))
    for a, b, cluster in list(own)[::step]:
        parts.append(
            Markup('<g class="pt c{}" transform="translate({} {})">{}</g>').format(
                cluster % 6, _at(x(a)), _at(y(b)), _MARKS[cluster % 6]
            )
        )
    for a, b, cluster in centres:
        parts.append(
            Markup(
                '<g transform="translate({0} {1})"><g class="halo" transform="scale(2)">{2}</g>'
                '<g class="c{3}" transform="scale(2)">{2}</g>'
                '<text class="t" x="14" y="4">centre {4}</text></g>'
            ).format(_at(x(a)), _at(y(b)), _MARKS[cluster % 6], cluster % 6, cluster)
        )
    parts.append(
        Markup(
            '<text class="t" x="{}" y="{}">{}</text><text class="t e" x="{}" y="{}">{}</text>'
        ).format(left + 6, top + 12, upward.name, right, floor + 36, across.name)
    )
    title = f"Rows and centres by {across.name} and {upward.name}"
    said = f"{len(own)} own rows and {len(centres)} centres."
    return _figure(720, 430, title, said, parts)


def line(
    values: Sequence[tuple[float, float]], across: str, upward: str, title: str, *, zero: bool
) -> Markup:
    """(x, y) as a line, such as the inertia over k or seconds over iterations."""
    right, top, floor = 700.0, 20.0, 200.0
    xs, ys = [x for x, _ in values], [y for _, y in values]
    low, high = (0.0 if zero else min(ys)), max(ys)
    if high <= low:
        high = low + 1
    # room for the longest number, also in the larger letters of narrow screens
    left = 24.0 + 11.0 * max(len(number(tick)) for tick in _steps(low, high))
    first, last = min(xs), max(xs)
    last = last if last > first else first + 1

    def place(x: float, y: float) -> tuple[str, str]:
        return (
            _at(left + (right - left) * (x - first) / (last - first)),
            _at(floor - (floor - top) * (y - low) / (high - low)),
        )

    parts = [
        _gridline(left, right, floor - (floor - top) * (tick - low) / (high - low), number(tick))
        for tick in _steps(low, high)
    ]
    dots = [place(x, y) for x, y in values]
    parts.append(
        Markup('<polyline class="line" points="{}"/>').format(" ".join(f"{a},{b}" for a, b in dots))
    )
    every = max(1, math.ceil(len(xs) / 12))
    for index, ((a, b), x) in enumerate(zip(dots, xs, strict=True)):
        parts.append(Markup('<circle class="dots" cx="{}" cy="{}" r="3"/>').format(a, b))
        if index % every == 0:
            parts.append(Markup('<text class="m" x="{}" y="218">{}</text>').format(a, number(x)))
    parts.append(
        Markup(
            '<text class="t" x="{}" y="12">{}</text><text class="t e" x="700" y="236">{}</text>'
        ).format(left, upward, across)
    )
    said = ", ".join(f"{number(x)}: {number(y)}" for x, y in list(values)[:20])
    return _figure(720, 244, title, said, parts)


def _figure(width: int, height: int, title: str, said: str, parts: Sequence[Markup]) -> Markup:
    return Markup(  # with room above for the larger letters of narrow screens
        '<svg class="plot far" viewBox="0 -14 {} {}" role="img" aria-label="{}"><title>{}</title>'
        "<desc>{}</desc>{}</svg>"
    ).format(width, height + 14, f"{title}. {said}", title, said, Markup("").join(parts))


def _gridline(left: float, right: float, y: float, words: str) -> Markup:
    return Markup(
        '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text class="e" x="{}" y="{}">{}'
        "</text>"
    ).format(left, right, _at(y), _at(y), left - 6, _at(y + 4), escape(words))


def _at(value: float) -> str:
    return f"{value:.1f}"


def _steps(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between two ends, about this many."""
    rough = (high - low) / wanted
    scale = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(scale * f for f in (1, 2, 5, 10) if scale * f >= rough * 0.7)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]
