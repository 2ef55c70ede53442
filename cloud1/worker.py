"""C1's half of a pair: it connects to the C2 worker that the master names."""

from ppodc.crypto.paillier import PublicKey
from ppodc.crypto.paillier_keys import load_share
from ppodc.errors import ChannelError
from ppodc.pairs.network import ZEROMQ, Network
from ppodc.pairs.pair_worker import PairWorker, Setup
from ppodc.pairs.recording import Recording
from ppodc.transport.channel import Channel
from ppodc.transport.curve_keys import CurveKeys

_CONNECT_SECONDS = 30.0


class Worker1(PairWorker):
    """Knows C2's public Paillier key, if any, or a share of it that opens nothing by itself.

    A share is read from its file: it never travels through Ray.
    """

    network: Network = ZEROMQ

    def __init__(
        self,
        setup: Setup,
        modulus: int | None,
        share_file: str | None = None,
        insecure_key: bool = False,
    ) -> None:
        if share_file is not None:
            super().__init__(setup, 1, load_share(share_file, 1, allow_insecure=insecure_key))
        else:
            super().__init__(setup, 1, None if modulus is None else PublicKey(modulus))
        self._keys = CurveKeys.generate()
        self._peer: tuple[str, bytes, str] | None = None

    def public(self) -> bytes:
        """The key that this worker's channel is known by; made for it and never stored."""
        return self._keys.public

    def pair_with(
        self, endpoint: str, public: bytes, pair: str, recording: Recording | None = None
    ) -> None:
        """Remember where the other half listens and which key it must hold."""
        self._peer = (endpoint, public, pair)
        self.keep_record(recording)

    def open_channel(self) -> tuple[Channel, str]:
        if self._peer is None:
            raise ChannelError("this worker was not told about its other half.")
        endpoint, public, pair = self._peer
        channel = self.network.connect(
            endpoint,
            self._keys,
            public,
            hello=self.setup.hello(pair),
            timeout=_CONNECT_SECONDS,
            receive_timeout=self.setup.link_timeout,
        )
        return channel, pair
