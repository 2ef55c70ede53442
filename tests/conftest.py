"""For all tests: Ctrl-C works in what they start, however the tests themselves were started.

A shell that runs a command in the background makes it ignore SIGINT, and children inherit that.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
