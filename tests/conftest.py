"""For all tests: Ctrl-C works in what they start; Ray, whoever loads it first, asks for a token.

A shell that runs a command in the background makes it ignore SIGINT, and children inherit that.
Ray reads its settings from the environment once, when it is imported. Bytecode is kept, whatever
the environment says: hundreds of processes would each compile every module. Tests that read data
outside the repository are skipped, with the reason, where there are none. Hypothesis does not judge
how long an example takes. Links between clouds in one process count as fast, however busy the
machine is, unless a test calls them slow.
"""

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from ppodc.cluster.ray_cluster import settings as ray_settings
from ppodc.mpc import round_trip
from tests import turns
from tests.outside_data import skip_without_data as pytest_runtest_setup  # noqa: F401 - a hook

signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.update(ray_settings(loopback=True))
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("any machine")
round_trip.SLOW_US = 1 << 60


def pytest_collection_modifyitems(items):
    items[:] = turns.in_turn(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return turns.Chains(config, log) if config.getvalue("dist") == "loadfile" else None
