"""C1's half of a pair as a Ray actor: it connects to the C2 worker that the master names."""

from ppodc.crypto.paillier import PublicKey
from ppodc.errors import ChannelError
from ppodc.kmeans.half import Half
from ppodc.kmeans.suites import Material, open_half
from ppodc.pairs.pair_worker import PairWorker, Setup
from ppodc.transport.channel import Channel
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.zmq_session import connect

RESOURCE = "cloud1"
_CONNECT_SECONDS = 30.0


class Worker1(PairWorker):
    """Knows C2's public Paillier key, and no key that opens a ciphertext."""

    def __init__(self, setup: Setup, modulus: int) -> None:
        super().__init__(setup)
        self._key = PublicKey(modulus)
        self._keys = CurveKeys.generate()
        self._peer: tuple[str, bytes, str] | None = None

    def public(self) -> bytes:
        """The key that this worker's channel is known by; made for it and never stored."""
        return self._keys.public

    def pair_with(self, endpoint: str, public: bytes, pair: str) -> None:
        """Remember where the other half listens and which key it must hold."""
        self._peer = (endpoint, public, pair)

    def meet(self) -> tuple[Channel, Half]:
        if self._peer is None:
            raise ChannelError("this worker was not told about its other half.")
        endpoint, public, pair = self._peer
        setup = self.setup
        channel = connect(
            endpoint,
            self._keys,
            public,
            hello=setup.hello(pair),
            timeout=_CONNECT_SECONDS,
            receive_timeout=setup.link_timeout,
        )
        material = Material(self._key, setup.pool, setup.pools_of(pair))
        return channel, open_half(setup.suite, 1, channel, setup.params, material)
