"""For all tests: Ctrl-C works in what they start, however the tests themselves were started.

A shell that runs a command in the background makes it ignore SIGINT, and children inherit that.
Tests that read data outside the repository are skipped, with the reason, where there are none.
"""

import signal

from tests.outside_data import skip_without_data as pytest_runtest_setup  # noqa: F401 - a hook

signal.signal(signal.SIGINT, signal.default_int_handler)
