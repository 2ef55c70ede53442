"""Cost of a cloud's process since the last report: time, bytes, rounds, memory."""

import time

from ppodc.bench.machine import own_peak_mb
from ppodc.local.pair_process import LocalCloud, tell


class ProcessClock:
    """Costs since the last time it was asked."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._channel = cloud.channel
        self._start()

    def _start(self) -> None:
        self._traffic = self._channel.traffic.snapshot()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def tell(self, what: str) -> None:
        spent = self._channel.traffic.snapshot() - self._traffic
        tell(
            what=what,
            wall_s=time.perf_counter() - self._wall,
            cpu_s=time.process_time() - self._cpu,
            bytes=spent.bytes_sent,
            rounds=spent.rounds,
            peak_mb=own_peak_mb(),
        )
        self._start()
