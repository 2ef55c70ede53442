"""Errors a user may see: every message says what is wrong and what to do, and holds no secret.

Commands print these without a traceback; anything else that escapes is a bug. Each has a `code`,
short and the same in every release, that a gateway's refusal carries beside its words: a program
decides by the code, a person reads the words.
"""

import re

_PLACE = re.compile(
    r"""(?<![^\s'"(\[=:])/(?!/)[^\s'",;:)\]]+"""
)  # an absolute path at a word's start
MAX_TEXT = 1000  # characters of a text from another party that are kept


def printable(text: str) -> str:
    """Text that came from outside, fit for a message or a terminal: one line, not too long."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:MAX_TEXT])


def without_places(text: str) -> str:
    """Text that goes to another party: names of this machine's files and folders taken out."""
    return _PLACE.sub("(a file)", text)


class PpodcError(Exception):
    """Base of all errors that are told to the user in one line."""

    code = "error"


# --- what a user gave ---------------------------------------------------------------------------


class InputError(PpodcError):
    """A file, table, option or configuration that cannot be used as given."""

    code = "input"


class WidthError(InputError):
    """A job whose numbers do not fit the key or the ring."""

    code = "width"


class KeyFileError(InputError):
    """A key file that is missing, unreadable, too open or of another key."""

    code = "key-file"


class BudgetError(InputError):
    """A drawing of noise that the data's privacy budget does not allow."""

    code = "budget"


class WithdrawnError(InputError):
    """An upload whose owner has taken it back."""

    code = "withdrawn"


class BusyError(InputError):
    """Another process is doing this very thing."""

    code = "busy"


# --- between parties ----------------------------------------------------------------------------


class WireError(PpodcError):
    """A frame that does not decode: wrong version, size, type or digest."""

    code = "wire"


class ChannelError(PpodcError):
    """The link to the other party is gone, refused, silent or out of step."""

    code = "channel"


class PeerError(ChannelError):
    """The other party reported an error and stopped."""

    code = "peer"


class RefusedError(PpodcError):
    """A gateway understood the request and said no; `code` and text are those of its error."""

    def __init__(self, text: str, code: str = "refused") -> None:
        super().__init__(text)
        self.code = code


class AccessError(PpodcError):
    """Someone known asked for what is not theirs."""

    code = "access"


class LimitError(PpodcError):
    """More at once than one party may have under way."""

    code = "limit"


class InternalError(PpodcError):
    """Something failed inside a service; only its log says what."""

    code = "internal"


class StoppingError(PpodcError):
    """A service that is about to end takes nothing new."""

    code = "stopping"


class CiphertextError(PpodcError):
    """A received number that cannot be a ciphertext under the agreed key."""

    code = "ciphertext"


# --- what a cloud stands on ---------------------------------------------------------------------


class StoreError(PpodcError):
    """The store's folder cannot be used: not writable, damaged or of another party."""

    code = "store"


class DiskFullError(StoreError):
    """There is no room for what is to be kept."""

    code = "disk-full"


class PoolError(PpodcError):
    """A pool of precomputed randomness that is spent, damaged or of another key."""

    code = "pool"


class RayUnusableError(PpodcError):
    """Ray cannot be started or reached."""

    code = "ray"


# --- how a job can end --------------------------------------------------------------------------


class SessionLostError(PpodcError):
    """Cloud 2 does not know the session: it was restarted, or another master took over."""

    code = "session-lost"


class StepFailedError(PpodcError):
    """A step did not succeed in as many attempts as are made."""

    code = "step-failed"


class CancelledError(PpodcError):
    """Somebody asked to cancel the job."""

    code = "cancelled"


class JobFailedError(PpodcError):
    """The job stopped; its state is on disk and the message says what to do."""

    code = "job-failed"


class JobEndedError(PpodcError):
    """The job whose result was asked for has failed or was cancelled."""

    code = "job-ended"
