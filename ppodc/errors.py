"""Errors that a user may see. Every message says what happened and what to do; none holds a secret.

    PpodcError
    ├── InputError              a file, table, option or configuration cannot be used; a ValueError
    │   ├── SpecError             a spec contradicts itself or names something that does not exist
    │   ├── ConfigError           a configuration file, a deployment or an invitation cannot be used
    │   ├── TableError            an owner's table does not fit the spec
    │   ├── OptionError           an option of a command or an argument of a call cannot be used
    │   ├── MissingExtraError     this installation lacks a package that an extra brings
    │   ├── WidthError            the numbers of a job do not fit the key or the ring
    │   ├── KeyFileError          a key file is missing, damaged, too open or of another key
    │   ├── BudgetError           the privacy budget does not allow this
    │   ├── NotFoundError         there is no such dataset or upload here
    │   └── StateError            the dataset, upload or job is in a state that forbids this
    │       ├── WithdrawnError      the owner has withdrawn the upload
    │       └── BusyError           another process is doing the same thing
    ├── ProtocolError           the other party sent what the protocol does not allow
    │   ├── WireError             a frame does not decode
    │   ├── CiphertextError       a number is no ciphertext under the agreed key
    │   └── CheckError            transfers of the other cloud failed a check
    ├── ChannelError            the connection is gone, refused, silent or out of step
    │   └── PeerError             the other party reported an error and stopped
    ├── RefusedError            a gateway said no; it has the code of the gateway's error
    ├── AccessError             a known caller asked for data of somebody else
    ├── LimitError              a caller has too many requests under way
    ├── InternalError           a service failed; only its log says why
    ├── StoppingError           a service is about to end
    ├── StoreError              a folder cannot be used
    │   └── DiskFullError         the disk is full
    ├── PoolError               precomputed randomness is spent, damaged or of another key
    ├── DeviationError          a recorded message is not what the protocol sends there
    ├── RecordEndsError         the record of a session ends here
    ├── RayUnusableError        Ray cannot be started or reached
    ├── SessionLostError        cloud 2 does not know the session
    ├── StepFailedError         a step failed in all its attempts
    ├── CancelledError          somebody cancelled the job
    ├── JobFailedError          the job stopped and can be resumed
    └── JobEndedError           the job whose result was asked for failed or was cancelled

Commands print an error in one line without a traceback, and exit with 3 if the other party or the
connection is at fault, else with 2. Any other exception that escapes is a bug. Each class has a
`code`, short and the same in every release, which a gateway sends beside the text of a refusal: a
program decides by the code, a person reads the text.
"""

import re

_Z85 = r"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]"
_KEY_OR_PLACE = re.compile(
    # A public key: 40 signs of Z85, not letters, digits, dots, hyphens and slashes alone.
    rf"(?P<key>(?<!{_Z85})(?=[\w.\-/]*[^\w.\-/\s]){_Z85}{{40}}(?!{_Z85}))"
    # An absolute path at a word's start.
    r"""|(?<![^\s'"(\[=:])/(?!/)[^\s'",;:)\]]+"""
)
MAX_TEXT = 1000  # characters of a text from another party that are kept


def printable(text: str) -> str:
    """Text from outside made fit for a message or a terminal: one line, not too long."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:MAX_TEXT])


def without_places(text: str) -> str:
    """Text for another party, with the paths of this machine taken out; public keys stay."""
    return _KEY_OR_PLACE.sub(lambda found: found["key"] or "(a file)", text)


class PpodcError(Exception):
    """Base of all errors that a user sees in one line."""

    code = "error"


class LedgerWarning(UserWarning):
    """A cloud's ledger does not have any more what an owner's client saw in it."""


# --- what a user gave, and what is stored -------------------------------------------------------


class InputError(PpodcError, ValueError):
    """A file, table, option or configuration that cannot be used as given."""

    code = "input"


class SpecError(InputError):
    """A spec that contradicts itself, or names a column, rule or kind that does not exist."""

    code = "spec"


class ConfigError(InputError):
    """A configuration file, a deployment or an invitation that cannot be used."""

    code = "config"


class TableError(InputError):
    """An owner's table that does not fit the spec."""

    code = "table"


class OptionError(InputError):
    """An option of a command, or an argument of a call, that cannot be used."""

    code = "option"


class MissingExtraError(InputError, ImportError):
    """This installation lacks a package; the text has the line that installs it (`extras`)."""

    code = "missing-extra"

    def __init__(self, text: str, package: str = "") -> None:
        super().__init__(text)
        self.name = package  # as an ImportError has it


class WidthError(InputError):
    """A job whose numbers do not fit the key or the ring."""

    code = "width"


class KeyFileError(InputError):
    """A key file that is missing, unreadable, too open or of another key."""

    code = "key-file"


class BudgetError(InputError):
    """A drawing of noise that the data's privacy budget does not allow."""

    code = "budget"


class NotFoundError(InputError):
    """There is no such dataset or upload here."""

    code = "not-found"


class StateError(InputError):
    """The dataset, upload or job is in a state that forbids this."""

    code = "state"


class WithdrawnError(StateError):
    """The owner has withdrawn the upload."""

    code = "withdrawn"


class BusyError(StateError):
    """Another process is doing the same thing."""

    code = "busy"


# --- between parties ----------------------------------------------------------------------------


class ProtocolError(PpodcError):
    """The other party sent what the protocol does not allow, or contradicts itself."""

    code = "protocol"


class WireError(ProtocolError):
    """A frame that does not decode: wrong version, size, type or digest."""

    code = "wire"


class CiphertextError(ProtocolError):
    """A received number that cannot be a ciphertext under the agreed key."""

    code = "ciphertext"


class CheckError(ProtocolError):
    """The other cloud's transfers failed a check: it did not follow the protocol, or data broke."""

    code = "check"


class ChannelError(PpodcError):
    """The connection to the other party is gone, refused, silent or out of step."""

    code = "channel"


class PeerError(ChannelError):
    """The other party reported an error and stopped."""

    code = "peer"


class RefusedError(PpodcError):
    """A gateway understood the request and said no; code and text are those of its error."""

    def __init__(self, text: str, code: str = "refused") -> None:
        super().__init__(text)
        self.code = code


class AccessError(PpodcError):
    """A known caller asked for data of somebody else."""

    code = "access"


class LimitError(PpodcError):
    """A caller has more requests under way than one party may have."""

    code = "limit"


class InternalError(PpodcError):
    """A service failed; only its log says why."""

    code = "internal"


class StoppingError(PpodcError):
    """A service is about to end and takes no new requests."""

    code = "stopping"


# --- disks, pools and Ray -----------------------------------------------------------------------


class StoreError(PpodcError):
    """A folder cannot be used: not writable, damaged or of another party."""

    code = "store"


class DiskFullError(StoreError):
    """The disk is full."""

    code = "disk-full"


class PoolError(PpodcError):
    """A pool of precomputed randomness that is spent, damaged or of another key."""

    code = "pool"


class DeviationError(PpodcError):
    """A recorded message that the protocol does not send there."""

    code = "deviation"


class RecordEndsError(PpodcError):
    """The record of a session ends before the half that is run again."""

    code = "record-ends"


class RayUnusableError(PpodcError):
    """Ray cannot be started or reached."""

    code = "ray"


# --- how a job can end --------------------------------------------------------------------------


class SessionLostError(PpodcError):
    """Cloud 2 does not know the session: it was restarted, or another master took over."""

    code = "session-lost"


class StepFailedError(PpodcError):
    """A step failed in all its attempts."""

    code = "step-failed"


class CancelledError(PpodcError):
    """Somebody cancelled the job."""

    code = "cancelled"


class JobFailedError(PpodcError):
    """The job stopped. Its state is on disk, and the message says what to do."""

    code = "job-failed"


class JobEndedError(PpodcError):
    """The job whose result was asked for failed or was cancelled."""

    code = "job-ended"
