"""Errors a user may see: every message says what is wrong and what to do, and holds no secret.

Commands print these without a traceback; anything else that escapes is a bug.
"""


class PpodcError(Exception):
    """Base of all errors that are told to the user in one line."""


class InputError(PpodcError):
    """A file, table, option or configuration that cannot be used as given."""


class WidthError(InputError):
    """A job whose numbers do not fit the key or the ring."""


class WireError(PpodcError):
    """A frame that does not decode: wrong version, size, type or digest."""


class ChannelError(PpodcError):
    """The link to the other party is gone, refused, silent or out of step."""


class PeerError(ChannelError):
    """The other party reported an error and stopped."""


class CiphertextError(PpodcError):
    """A received number that cannot be a ciphertext under the agreed key."""


class KeyFileError(InputError):
    """A key file that is missing, unreadable, too open or of another key."""


class PoolError(PpodcError):
    """A pool of precomputed randomness that is spent, damaged or of another key."""
