"""A slow link on this machine: bytes arrive later, and at a limited rate.

A thread forwards the bytes of every connection to the real address, in both directions. A piece
that is read at some time leaves when those before it have left at the link's rate, and arrives the
one-way latency after that. The thread does not read the bytes: a peer meets the CURVE and
the allow-list of the address behind it. For measurements only; it listens on loopback.
Bandwidth and delay of a link are imitated. Loss, and its effect on TCP, are not.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

from ppodc.bench.network_presets import Link

_PIECE = 1 << 16
_QUEUED = 4 << 20  # bytes that wait for the link besides those on their way; then reading stops


class _Lane:
    """One direction of one connection."""

    def __init__(self, link: Link) -> None:
        self._rate, self._delay = link.bytes_s, link.one_way_ms / 1e3
        self._free_at = 0.0  # when the link has sent all it was given
        self._pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        self._waiting = 0
        self._room = asyncio.Condition()

    def due(self, now: float, size: int) -> float:
        """Return the time at which a piece that is read now arrives."""
        self._free_at = max(self._free_at, now) + size / self._rate
        return self._free_at + self._delay

    async def take(self, reader: asyncio.StreamReader) -> None:
        """Read until the sender is done."""
        now = asyncio.get_running_loop().time
        most = _QUEUED + self._rate * self._delay
        while piece := await reader.read(_PIECE):
            self._pieces.put_nowait((self.due(now(), len(piece)), piece))
            self._waiting += len(piece)
            async with self._room:
                await self._room.wait_for(lambda: self._waiting < most)
        self._pieces.put_nowait((0.0, b""))

    async def give(self, writer: asyncio.StreamWriter) -> None:
        """Write each piece when it is due."""
        now = asyncio.get_running_loop().time
        while True:
            due, piece = await self._pieces.get()
            if not piece:
                writer.write_eof()
                return
            if (wait := due - now()) > 0:
                await asyncio.sleep(wait)
            writer.write(piece)
            await writer.drain()
            async with self._room:
                self._waiting -= len(piece)
                self._room.notify()


@contextlib.contextmanager
def slow(endpoint: str, link: Link) -> Iterator[str]:
    """An address on loopback that leads to `endpoint` (tcp://host:port) over such a link."""
    target = urlsplit(endpoint)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled when the link ends; asyncio would log that as an error of this function.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            there_reader, there_writer = await asyncio.open_connection(target.hostname, target.port)
            there, back = _Lane(link), _Lane(link)
            try:
                await asyncio.gather(
                    there.take(reader),
                    there.give(there_writer),
                    back.take(there_reader),
                    back.give(writer),
                )
            finally:
                there_writer.close()
        writer.close()

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(meet, "127.0.0.1", 0)

    async def end(server: asyncio.Server) -> None:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result()
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
