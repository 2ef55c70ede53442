"""The record-times-centre products, behind one small interface.

A `ProductStep` makes shares of t . R for all records t of a stretch and a *random* matrix R that
neither cloud knows. That depends on no centre, so it is offline work; online, the centres' matrix
V minus R is opened (masked by R) and t . V = t . R + t . (V - R) is local. A matrix R serves once.
`product_step` is the one place that chooses how a job's products are made.

Who learns what: nothing, whichever way is chosen.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ppodc.errors import WidthError
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares.ingest import Shard
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc.lattice import parameters
from ppodc.mpc.lattice.parameters import DEGREE, LatticeParameters
from ppodc.mpc.lattice.products import EncryptedTable, LatticePair
from ppodc.mpc.meter import Meter
from ppodc.mpc.session import Session
from ppodc.mpc.shares import table_products
from ppodc.mpc.shares.additive import LIMB_BITS, AdditiveShare
from ppodc.mpc.spill import Budget

AHEAD_BYTES = 1 << 27  # of products made ahead, for all shards together
# From so many records on, encrypting them once pays on any link. Over a slow one bytes decide, and
# fewer records will do. docs/measured.md has both sides of the border.
_LATTICE_ROWS = 1000
_LATTICE_ROWS_SLOW = 400


@dataclass(frozen=True, slots=True, repr=False)
class RandomProducts:
    """Shares of a random matrix R (l, columns) and of t . R (rows, columns); for one use."""

    matrix: AdditiveShare
    products: AdditiveShare

    def first(self, columns: int) -> "RandomProducts":
        """Those of the first columns of R; the others are given up."""
        return RandomProducts(self.matrix[:, :columns], self.products[:, :columns])

    def stretch(self, start: int, end: int) -> "RandomProducts":
        """The products of some rows, for the same centres as those of all rows."""
        return RandomProducts(self.matrix, self.products[start:end])


Making = Generator[None, None, RandomProducts]  # products that are made in the waits of a step


class ShardProducts(Protocol):
    """The source of one shard's random products."""

    def make(self, session: Session, start: int, end: int, columns: int) -> RandomProducts:
        """For rows start..end-1, a chunk of the shard, modulo 2^(bits of a distance).

        Chunks are asked for in order from the first, all of a shard for the same centres.
        """

    def making(self, session: Session, start: int, end: int, columns: int) -> Making:
        """`make` with stops, in each of which the peer's messages are on their way."""

    def close(self) -> None:
        """Forget what was kept of the shard."""


class ProductStep(Protocol):
    """A way to make random products; some need the bits of the records.

    Products that are not `exact` are off by -1, 0 or 1.
    """

    needs_bits: bool
    exact: bool

    def take_in(self, session: Session, shard: Shard) -> ShardProducts:
        """Get ready for products of its chunks; both clouds call it alike."""


def product_step(p: Parameters, rings: Rings, budget: Budget, *, slow: bool) -> ProductStep:
    """The way a job's products are made: equal at both clouds, which agree on the link."""
    lattice = lattice_for(p, rings, slow=slow)
    return TransferProducts() if lattice is None else LatticeProducts(lattice, budget)


def lattice_for(p: Parameters, rings: Rings, *, slow: bool = False) -> LatticeParameters | None:
    """The lattice of a job, or None if its products are made by transfers.

    WidthError if the job asks for a lattice and none is safe.
    """
    few = p.m < (_LATTICE_ROWS_SLOW if slow else _LATTICE_ROWS)
    if p.products == "transfers" or (p.products == "auto" and few):
        return None
    try:
        return parameters.choose(rings.point.product_bits, p.l)
    except WidthError:
        if p.products == "lattice":
            raise
        return None


def _random_matrix(session: Session, shard: Shard, columns: int) -> AdditiveShare:
    """This cloud's R, of R1 + R2."""
    shape = (shard.table.columns, columns, shard.table.limbs)
    return AdditiveShare(session.random.uint64(shape))


class LatticeProducts:
    """Random products on records that are encrypted once (`mpc.lattice.products`).

    Rounds, bytes, operations: theirs; both grow with the number of columns, not of bits.
    """

    needs_bits = False
    exact = False

    def __init__(self, parameters: LatticeParameters, budget: Budget) -> None:
        self._parameters, self._budget = parameters, budget
        self._pair: LatticePair | None = None

    def take_in(self, session: Session, shard: Shard) -> ShardProducts:
        """Exchange keys, before the first shard, and encrypted records."""
        if self._pair is None:
            self._pair = LatticePair(session, self._parameters)
        table = self._pair.take_in(session, shard.table.additive, shard.rows, self._budget)
        return _LatticeShard(self._pair, shard, table)


class _LatticeShard:
    """A block of encrypted records costs the same however many it holds, so blocks are full.

    A chunk is some blocks, with one matrix R for all of them: one V - R is opened. Or it is a part
    of a block, whose chunks share one matrix R: for the same V they open the same V - R.
    """

    def __init__(self, pair: LatticePair, shard: Shard, table: EncryptedTable) -> None:
        self._pair, self._shard, self._table = pair, shard, table
        self._made: RandomProducts | None = None  # of the block that the last chunk was of

    def make(self, session: Session, start: int, end: int, columns: int) -> RandomProducts:
        """For a chunk, which is some blocks of the encrypted table or a part of one."""
        if start % DEGREE == 0:
            matrix = _random_matrix(session, self._shard, columns)
            products = self._pair.products(session, self._table, _blocks(start, end), matrix)
            self._made = RandomProducts(matrix, products)
        return self._part(start, end, columns)

    def making(self, session: Session, start: int, end: int, columns: int) -> Making:
        """`make` block by block, in the waits of other steps."""
        if start % DEGREE == 0:
            matrix = _random_matrix(session, self._shard, columns)
            blocks = _blocks(start, end)
            run = self._pair.products_beside(session, self._table, blocks, matrix)
            self._made = RandomProducts(matrix, (yield from run))
        return self._part(start, end, columns)

    def _part(self, start: int, end: int, columns: int) -> RandomProducts:
        """Of the products that were made last, those of a chunk."""
        made, within = self._made, start % DEGREE
        if made is None or made.matrix.shape[1] != columns:
            raise ValueError("chunks of a block come in order")
        if end % DEGREE == 0 or end == self._shard.rows:
            self._made = None
        return made.stretch(within, within + end - start)

    def close(self) -> None:
        """Forget the peer's encrypted records."""
        self._made = None
        self._table.close()


def _blocks(start: int, end: int) -> range:
    """The blocks of a chunk that begins with one."""
    return range(start // DEGREE, max(start // DEGREE + 1, -(-end // DEGREE)))


class TransferProducts:
    """Random products by correlated transfers on the shard's static keys (`mpc.table_products`).

    Rounds: 1 (batches overlap). Bytes per bit of a record and direction: those of a distance
    per column. Operations per bit: 3 L / 2 hash blocks per column.
    """

    needs_bits = True
    exact = True

    def take_in(self, session: Session, shard: Shard) -> ShardProducts:
        """The records' bits and the keys of their transfers are made now, not in an iteration."""
        _ = shard.table.transfers
        return _TransferShard(shard)


@dataclass(frozen=True, slots=True, repr=False)
class _TransferShard:
    shard: Shard

    def make(self, session: Session, start: int, end: int, columns: int) -> RandomProducts:
        """For any rows of the shard."""
        table = self.shard.table
        matrix = _random_matrix(session, self.shard, columns)
        width = LIMB_BITS * (table.limbs - 1) + 8 * self.shard.top
        found = table_products.products(session, table, start, end, matrix, width)
        return RandomProducts(matrix, found)

    def making(self, session: Session, start: int, end: int, columns: int) -> Making:
        """`make` without a stop."""
        yield from ()
        return self.make(session, start, end, columns)

    def close(self) -> None:
        """The keys belong to the shard."""


def products_beside(
    meter: Meter, runs: Iterable[Making], made: Callable[[list[RandomProducts]], None]
) -> Iterator[None]:
    """Work beside other steps: these products, one behind the other; `made` gets all of them."""
    found: list[RandomProducts] = []
    for run in runs:
        over = False
        while not over:
            with meter.step("products", offline=True):
                try:
                    next(run)
                except StopIteration as end:
                    found.append(end.value)
                    over = True
            if not over:
                yield
    made(found)


class ProductsAhead:
    """Random products of later iterations, by shard, as far as they fit in memory.

    `make(name)` gives those of one iteration, a `RandomProducts` per chunk of the shard.
    """

    def __init__(self, make: Callable[[str], list[RandomProducts]], bytes_per_row: int) -> None:
        self._make, self._bytes_per_row = make, bytes_per_row
        self._ready: dict[str, deque[list[RandomProducts]]] = {}

    def take(self, name: str) -> Sequence[RandomProducts] | None:
        """One iteration's products of a shard, if they were made ahead."""
        ready = self._ready.get(name)
        return ready.popleft() if ready else None

    def count(self, name: str) -> int:
        """The number of iterations for which a shard has its products."""
        return len(self._ready.get(name, ()))

    def add(self, name: str, made: list[RandomProducts]) -> None:
        """Add a shard's products for one more iteration."""
        self._ready.setdefault(name, deque()).append(made)

    def fits(self, shard: Shard) -> bool:
        """Whether products of one iteration over a shard may be kept."""
        return self._bytes_per_row * shard.rows <= AHEAD_BYTES

    def fill(self, shards: Mapping[str, Shard], iterations: int) -> None:
        """Make those of this many iterations, the nearest ones of all shards first."""
        sizes = {name: self._bytes_per_row * shard.rows for name, shard in shards.items()}
        left = AHEAD_BYTES - sum(sizes[name] * self.count(name) for name in shards)
        for number in range(iterations):
            for name in shards:
                if self.count(name) <= number and sizes[name] <= left:
                    left -= sizes[name]
                    self.add(name, self._make(name))
