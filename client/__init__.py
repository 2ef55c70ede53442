"""The owner's side: `Owner` uploads records as shares and opens results; `SecureKMeans` does all
of it on one machine behind scikit-learn's interface."""

from client.both_clouds import ListedDataset as Dataset
from client.local_private import LocalPrivateDBSCAN, LocalPrivateKMeans, LocalPrivateKModes
from client.owner import Owner, Receipt
from client.record_linkage import RecordLinkage
from client.secure_kmeans import SecureKMeans
from client.secure_totals import SecureTotals
from ppodc.errors import JobEndedError
from ppodc.kmeans.result import Result

__all__ = [
    "Dataset",
    "JobEndedError",
    "LocalPrivateDBSCAN",
    "LocalPrivateKMeans",
    "LocalPrivateKModes",
    "Owner",
    "Receipt",
    "RecordLinkage",
    "Result",
    "SecureKMeans",
    "SecureTotals",
]
