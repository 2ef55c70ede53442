"""C2's half of a pair: it listens for the one C1 worker whose key it was given."""

import logging

from ppodc.cluster.ray_workers import node_address
from ppodc.crypto.paillier_keys import load_secret, load_share
from ppodc.errors import ChannelError, InputError
from ppodc.pairs.network import ZEROMQ, Listener, Network
from ppodc.pairs.pair_worker import PairWorker, Setup
from ppodc.pairs.recording import Recording
from ppodc.transport.channel import Channel
from ppodc.transport.curve_keys import CurveKeys

_ACCEPT_SECONDS = 60.0

log = logging.getLogger(__name__)


class Worker2(PairWorker):
    """Reads the secret Paillier key or its share, if any, from a file: none travels through Ray."""

    network: Network = ZEROMQ

    def __init__(
        self,
        setup: Setup,
        key_file: str | None,
        insecure_key: bool,
        share_file: str | None = None,
    ) -> None:
        if share_file is not None:
            super().__init__(setup, 2, load_share(share_file, 2, allow_insecure=insecure_key))
        elif key_file is not None:
            super().__init__(setup, 2, load_secret(key_file, allow_insecure=insecure_key))
        else:
            super().__init__(setup, 2, None)
        self._keys = CurveKeys.generate()
        self._listener: Listener | None = None
        self._pair = ""

    def listen(
        self,
        host: str,
        ports: tuple[int, int],
        public: bytes,
        pair: str,
        recording: Recording | None = None,
    ) -> tuple[str, bytes]:
        """Open a port for the holder of `public` alone; (endpoint, own public key).

        The host "node" stands for the address under which Ray knows this node.
        """
        address = node_address() if host == "node" else host
        self._listener = self._bind(address, ports, public)
        self._pair = pair
        self.keep_record(recording)
        return self._listener.endpoint, self._keys.public

    def _bind(self, address: str, ports: tuple[int, int], public: bytes) -> Listener:
        timeout = self.setup.link_timeout
        for port in range(ports[0], ports[1] + 1):
            try:
                return self.network.listen(
                    f"tcp://{address}:{port}", self._keys, [public], timeout=timeout
                )
            except ChannelError as error:
                log.info("port %d cannot be used: %s", port, error)
        raise InputError(
            f"no port from {ports[0]} to {ports[1]} is free on {address}; widen worker_ports, or "
            "correct worker_host, in the configuration of cloud 2."
        )

    def open_channel(self) -> tuple[Channel, str]:
        if self._listener is None:
            raise ChannelError("this worker was not told about its other half.")
        channel = self._listener.accept(_ACCEPT_SECONDS, self.setup.hello(self._pair))
        return channel, self._pair

    def cut(self) -> None:
        super().cut()
        if self._listener is not None:
            self._listener.close()
