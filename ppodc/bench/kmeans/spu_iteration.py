"""One iteration of k-means in SecretFlow SPU; run by the interpreter that has `spu` installed.

`python spu_iteration.py FOLDER` reads FOLDER/setting.json and the tables, splits them into SPU's
shares as an owner would, starts both parties as processes that listen at the setting's `ports` and
reach each other at those `seen` (the same, or a forwarder's), opens the centres they end with, and
writes FOLDER/result.json. `python spu_iteration.py FOLDER RANK` is one of the parties. Nothing of
this package is imported, since the two may need other versions of the same libraries.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

FIELD = "FM64"
FRACTION_BITS = 18
PARTIES = 2
_LINK = re.compile(r"Link details: total send bytes (\d+), recv bytes (\d+), send actions (\d+)")
_TIMEOUT = 24 * 3600


def _spu() -> Any:
    return importlib.import_module("spu")


def config(spu: Any, protocol: str) -> Any:
    """The package's defaults: fixed-point numbers in a ring of 64 bits, 18 bits of fraction."""
    made = spu.RuntimeConfig()
    made.protocol = getattr(spu.ProtocolKind, protocol)
    made.field = getattr(spu.FieldType, FIELD)
    made.fxp_fraction_bits = FRACTION_BITS
    made.enable_pphlo_profile = True
    return made


def kmeans_step(points: Any, centres: Any) -> Any:
    """Nearest centre of every record, and the mean of the records of each."""
    jnp: Any = importlib.import_module("jax.numpy")
    scores = jnp.sum(centres * centres, axis=1) - 2.0 * jnp.matmul(points, centres.T)
    nearest = jnp.argmin(scores, axis=1)
    one_hot = (nearest[:, None] == jnp.arange(centres.shape[0])[None, :]).astype(points.dtype)
    sums = jnp.matmul(one_hot.T, points)
    counts = jnp.sum(one_hot, axis=0)
    return sums / counts[:, None]


def compiled(spu: Any, points: Any, centres: Any) -> Any:
    """The step for tables of these shapes, all of it on secret values."""
    frontend: Any = importlib.import_module("spu.utils.frontend")
    secret = spu.Visibility.VIS_SECRET
    executable, _ = frontend.compile(
        frontend.Kind.JAX,
        kmeans_step,
        (points, centres),
        {},
        ["points", "centres"],
        [secret, secret],
        lambda flat: [f"out{i}" for i in range(len(flat))],
    )
    return executable


def party(folder: Path, rank: int) -> None:
    """Run the step as one party; its half of the centres and its time go to its own file."""
    spu = _spu()
    setting = json.loads((folder / "setting.json").read_text())
    tables = [np.load(folder / f"{name}.npy", allow_pickle=False) for name in ("points", "centres")]
    executable = compiled(spu, *tables)
    description = spu.link.Desc()
    description.recv_timeout_ms = _TIMEOUT * 1000
    for number, (own, seen) in enumerate(zip(setting["ports"], setting["seen"], strict=True)):
        port = own if number == rank else seen
        description.add_party(f"party{number}", f"127.0.0.1:{port}")
    context = spu.link.create_brpc(description, rank)
    runtime = spu.Runtime(context, config(spu, setting["protocol"]))
    for name in ("points", "centres"):
        runtime.set_var(name, _read_share(spu, folder, name, rank))
    took = []
    for _ in range(setting["runs"]):
        context.barrier()
        wall, cpu = time.perf_counter(), sum(os.times()[:2])
        runtime.run(executable)
        took.append({"wall_s": time.perf_counter() - wall, "cpu_s": sum(os.times()[:2]) - cpu})
    _write_share(folder, "out0", rank, runtime.get_var(executable.output_names[0]))
    (folder / f"party{rank}.json").write_text(json.dumps(took))
    context.stop_link()


def _write_share(folder: Path, name: str, rank: int, share: Any) -> None:
    (folder / f"{name}.{rank}.meta").write_bytes(share.meta)
    for number, chunk in enumerate(share.share_chunks):
        (folder / f"{name}.{rank}.chunk{number:06d}").write_bytes(chunk)


def _read_share(spu: Any, folder: Path, name: str, rank: int) -> Any:
    share = spu.libspu.Share()
    share.meta = (folder / f"{name}.{rank}.meta").read_bytes()
    files = sorted(folder.glob(f"{name}.{rank}.chunk*"))
    share.share_chunks = [file.read_bytes() for file in files]
    return share


def drive(folder: Path) -> None:
    """Split the tables, run both parties, open the centres."""
    spu = _spu()
    setting = json.loads((folder / "setting.json").read_text())
    io = spu.Io(PARTIES, config(spu, setting["protocol"]))
    for name in ("points", "centres"):
        table = np.load(folder / f"{name}.npy", allow_pickle=False)
        shares = io.make_shares(table, spu.Visibility.VIS_SECRET)
        for rank, share in enumerate(shares):
            _write_share(folder, name, rank, share)
    said = _run_parties(folder)
    centres = io.reconstruct([_read_share(spu, folder, "out0", rank) for rank in range(PARTIES)])
    np.save(folder / "result.npy", np.asarray(centres, np.float64))
    result = {"version": spu.__version__, "runs": _runs(folder, said)}
    (folder / "result.json").write_text(json.dumps(result))


def _runs(folder: Path, said: list[str]) -> list[dict[str, Any]]:
    """Every run: seconds of the slower party, CPU and bytes sent of both.

    Bytes are those of SPU's own profile; None if another version words it in another way.
    """
    took = [json.loads((folder / f"party{rank}.json").read_text()) for rank in range(PARTIES)]
    links = [_LINK.findall(text) for text in said]
    told = all(len(link) == len(took[0]) for link in links)
    return [
        {
            "seconds": max(party[number]["wall_s"] for party in took),
            "cpu_s": sum(party[number]["cpu_s"] for party in took),
            "bytes": sum(int(link[number][0]) for link in links) if told else None,
            "sends": int(links[0][number][2]) if told else None,
        }
        for number in range(len(took[0]))
    ]


def _run_parties(folder: Path) -> list[str]:
    """Both parties as processes; what they logged."""
    logs = [folder / f"party{rank}.log" for rank in range(PARTIES)]
    processes = []
    try:
        for rank, log in enumerate(logs):
            with log.open("w") as file:
                command = [sys.executable, "-P", __file__, str(folder), str(rank)]
                processes.append(subprocess.Popen(command, stdout=file, stderr=file))
        while None in (codes := [process.poll() for process in processes]) and not any(codes):
            time.sleep(0.05)  # if one fails, the other would wait for it for ever
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
                process.wait()
    said = [log.read_text(errors="replace") for log in logs]
    for code, text in zip(codes, said, strict=True):
        if code:
            sys.exit("a party stopped: " + (text.strip().splitlines() or ["no reason given"])[-1])
    return said


if __name__ == "__main__":
    if len(sys.argv) == 3:
        party(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        drive(Path(sys.argv[1]))
