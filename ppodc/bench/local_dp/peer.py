"""One run of a peer, by an interpreter that has it: JSON in, JSON out, nothing of ppodc needed.

diffprivlib wants an older scikit-learn than this project, so it lives in an environment of its own.
Called as `python peer.py` with {"peer", "records", "k", "epsilon", "run"} on standard input.
"""

import json
import sys
import time
from typing import Any


def diffprivlib(task: dict[str, Any]) -> dict[str, Any]:
    """Centres of `diffprivlib.models.KMeans`, a trusted curator's."""
    import numpy as np
    from diffprivlib.models import KMeans

    records = np.array(task["records"])
    bounds = (np.zeros(records.shape[1]), np.ones(records.shape[1]))
    started = time.process_time()
    model = KMeans(task["k"], epsilon=task["epsilon"], bounds=bounds, random_state=task["run"])
    model.fit(records)
    return {"centres": model.cluster_centers_.tolist(), "cpu_s": time.process_time() - started}


def pure_ldp(task: dict[str, Any]) -> dict[str, Any]:
    """OUE of pure-ldp: every record by itself, as its interface wants it."""
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    started = time.process_time()
    client = UEClient(epsilon=task["epsilon"], d=task["k"], use_oue=True)
    server = UEServer(epsilon=task["epsilon"], d=task["k"], use_oue=True)
    for cell in task["records"]:
        server.aggregate(client.privatise(cell + 1))
    estimates = server.estimate_all(range(1, task["k"] + 1), suppress_warnings=True)
    spent = time.process_time() - started
    return {"estimates": [float(x) for x in estimates], "cpu_s": spent}


if __name__ == "__main__":
    task = json.load(sys.stdin)
    json.dump({"diffprivlib": diffprivlib, "pure-ldp": pure_ldp}[task["peer"]](task), sys.stdout)
