"""`ppodc bench ...`: the platform under faults, hostile callers and long use."""

from pathlib import Path
from typing import Any

from ppodc.cli.measurement import PAIRS, SHAPE, SUITE, Measurement, choice, optional, records


def owner_and_operator() -> dict[str, Any]:
    """Those who call the clouds, for a measurement that plays them."""
    from client.operator import Operator
    from client.owner import Owner

    return {"owner": Owner, "operator": Operator}


def all_parties() -> dict[str, Any]:
    """The parties' own code, for a measurement that plays all of them in one process."""
    from client.both_clouds import Clouds
    from client.operator import Operator
    from client.owner import Owner
    from cloud2.follower import Follower
    from cloud2.service import control_operations
    from master import driver, job
    from master.cloud2_client import Cloud2Client
    from ppodc.bench.fault_world import Parties

    return {
        "parties": Parties(
            run_job=job.run_job,
            resume_job=job.resume_job,
            prepare_job=job.prepare_job,
            seal_dataset=job.seal_dataset,
            cancel_job=job.cancel_job,
            means=driver.Means,
            cloud2_client=Cloud2Client,
            follower=Follower,
            control_operations=control_operations,
            owner=Owner,
            operator=Operator,
            both_clouds=Clouds,
        )
    }


MEASUREMENTS = (
    Measurement(
        "platform",
        "What orchestration costs, whether memory grows, and many owners uploading at once.",
        (
            *SHAPE,
            PAIRS,
            choice("iterations", int, 50, "Iterations of the job.", min=2),
            choice("owners", int, 100, "Owners that upload at once.", min=1),
            SUITE,
        ),
        points=False,
        draws=False,
    ),
    Measurement(
        "gateway",
        "One hostile owner at full speed beside honest ones and a running job: who is answered?",
        [
            records(2000),
            choice("l", int, 4, "Attributes."),
            choice("k", int, 3, "Clusters."),
            choice("owners", int, 9, "Honest owners.", min=1),
            choice("iterations", int, 10, "Most iterations of the job.", min=1),
        ],
        points=False,
        draws=False,
        given=all_parties,
    ),
    Measurement(
        "fuzz",
        """Mutated real traffic to every socket of every role: does anything crash, hang or grow?

        Most frames go to the gateways' desks and into channels inside this process, some over TCP
        with keys and without; an honest owner and an honest pair go on beside them.
        """,
        [
            choice("frames", int, 1_000_000, "How many.", min=100),
            choice("seed", int, 1, "The same gives the same frames."),
        ],
        points=False,
        draws=False,
        given=all_parties,
    ),
    Measurement(
        "faults",
        """Random fault schedules in one process: is every result exact, is nothing lost or doubled?

        Workers, services and the master die, stall or lose their link, disks fill, messages are
        lost or repeated, at points drawn from the seed.
        """,
        (
            choice("schedules", int, 1000, "How many.", min=1),
            choice("seed", int, 1, "Of the whole campaign; the same gives the same schedules."),
        ),
        points=False,
        draws=False,
        given=all_parties,
    ),
    Measurement(
        "soak",
        """Jobs of all kinds on real services and Ray while processes die at random: does it last?

        Services, masters, uploads, workers and Ray's own processes are killed or stopped for a
        while; every result must be exact. What the services hold (memory, descriptors, sockets,
        processes, files) is compared. Ctrl-C ends it early, with its report.
        """,
        (
            choice("minutes", float, 60, "For how long.", min=0.1),
            choice("seed", int, 1, "Of the jobs and faults; timing makes every run another."),
            optional("folder", Path, "New folder that keeps the deployment and all logs."),
        ),
        points=False,
        draws=False,
        given=owner_and_operator,
    ),
)
