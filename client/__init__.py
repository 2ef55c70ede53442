"""The owner's side: `Owner` uploads records as shares and opens results; `SecureKMeans` does all
of it on one machine behind scikit-learn's interface."""

from client.owner import Dataset, Owner, Receipt
from client.result import Result
from client.secure_kmeans import SecureKMeans
from ppodc.errors import JobEndedError

__all__ = ["Dataset", "JobEndedError", "Owner", "Receipt", "Result", "SecureKMeans"]
