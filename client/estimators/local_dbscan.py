"""DBSCAN under local differential privacy, in scikit-learn's manner, on this machine."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from client.estimators.given_tables import LEFT_OUT, Missing, tables_of
from client.estimators.local_estimator import LocalEstimator, bounds_of
from client.estimators.owner_tables import schema_of, seed_of
from client.estimators.parameters import ARRAY, BOOLEAN, NOTHING, POSITIVE, WHOLE, Kinds, among
from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import OptionError
from ppodc.local_dp.mechanism import FlippedBits
from ppodc.local_dp.published.bit_estimates import DistanceScale
from ppodc.local_dp.published.bit_reports import BitReports, privbv, privbv_as_published
from ppodc.local_dp.published.kcluster import dbscan
from ppodc.records.encode import encode


class LocalPrivateDBSCAN(LocalEstimator):
    """DBSCAN on distances estimated from PrivBV's bits: for shapes, and very large epsilons only.

    Parameters
    ----------
    eps : float, default=0.5
        Radius, in real units; all columns have the same bounds.
    min_samples : int, default=5
        Records within the radius, itself included, that make a core record.
    epsilon : float, default=1.0
        Guaranteed for one record; shared out over all bits of all columns.
    bits : int, default=64
        Bits for each value.
    bounds : tuple or None, default=None
        One pair (low, high) for all columns. Public, so it must be given.
    debias : bool, default=False
        Whether to subtract what noise adds to squared distances.
    random_state : int, RandomState or None, default=None
        Public seed of the thresholds.
    ub : int, default=1000
        Values are rounded to whole numbers 0..ub between the bounds.
    insecure_noise_seed : int or None, default=None
        For experiments: noise that anyone can draw again, hence no privacy.
    published : bool, default=False
        Whether epsilon counts for every bit; see `as_published`.
    missing : "refuse" or "leave out", default="refuse"
        What becomes of rows with a missing value: an error that names them, or they are left out
        and counted in `left_out_`.
    id_column : str or None, default=None
        A column that names rows, which stays here: `to_frame` has it beside the labels.

    Attributes
    ----------
    labels_ : ndarray of int
        The collector's labels of the reports; -1 is noise, -2 a row that was left out.
    left_out_ : list of int
        Rows of each table that were left out, because a value is missing.
    privacy_ : PrivacyReport
        The guarantee for one record.
    usable_ : bool
        False where distances are little but noise.

    Examples
    --------
    >>> import numpy as np
    >>> from ppodc import LocalPrivateDBSCAN
    >>> rows = np.repeat([[1.0, 1.0], [9.0, 9.0]], 20, axis=0)
    >>> model = LocalPrivateDBSCAN(eps=3.0, epsilon=500.0, bounds=(0, 10), random_state=1)
    >>> model.fit(rows).labels_.shape
    (40,)
    >>> round(model.privacy_.guaranteed.epsilon, 3)
    500.0
    """

    _kinds: ClassVar[Kinds] = {
        **LocalEstimator._kinds,
        "eps": [POSITIVE],
        "min_samples": [WHOLE],
        "bits": [WHOLE],
        "bounds": [among("data"), ARRAY, NOTHING],
        "debias": [BOOLEAN],
        "ub": [WHOLE],
        "published": [BOOLEAN],
    }

    def __init__(
        self,
        eps: float = 0.5,
        *,
        min_samples: int = 5,
        epsilon: float = 1.0,
        bits: int = 64,
        bounds: tuple[float, float] | None = None,
        debias: bool = False,
        random_state: Any = None,
        ub: int = 1000,
        insecure_noise_seed: int | None = None,
        published: bool = False,
        missing: Missing = "refuse",
        id_column: str | None = None,
    ) -> None:
        self.eps = eps
        self.min_samples = min_samples
        self.epsilon = epsilon
        self.bits = bits
        self.bounds = bounds
        self.debias = debias
        self.random_state = random_state
        self.ub = ub
        self.insecure_noise_seed = insecure_noise_seed
        self.published = published
        self.missing = missing
        self.id_column = id_column

    @classmethod
    def as_published(
        cls, eps: float = 0.5, *, b: float, s: int, **rest: Any
    ) -> "LocalPrivateDBSCAN":
        """b for every bit, s bits a value; `fit` warns with what a record really spends."""
        return cls(eps, epsilon=b, bits=s, published=True, **rest)

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Cluster the owners' tables: a list or mapping with one for each owner, or one table."""
        from ppodc.local_dp.published.distances import check_matrix_rows, distance_matrix

        self._check_parameters()
        self.seed_ = seed_of(self.random_state)
        how: Any = {"missing": self.missing, "id_column": self.id_column}
        tables = tables_of(self, X, reset=True, **how)
        schema = schema_of(tables, self.bounds, self.ub)
        low, high = bounds_of(schema)
        if len(set(low)) > 1 or len(set(high)) > 1:
            raise OptionError("DBSCAN needs the same bounds for all columns: one pair.")
        tables.check(schema)
        check_matrix_rows(sum(map(len, tables)))
        mechanism = self._mechanism(len(schema.columns))
        owners = [encode(table, schema) for table in tables]
        reports = self._reports(owners, FlippedBits(mechanism))
        width = float(high[0] - low[0])
        scale = DistanceScale.of(mechanism.flips, self.bits, width, width / 2)
        matrix = distance_matrix(reports, mechanism.attributes, scale, debias=self.debias)
        self._keep(tables, dbscan(matrix, self.eps, self.min_samples), LEFT_OUT - 1)
        noise = scale.noise * math.sqrt(mechanism.attributes)
        self._judge(
            f"little but noise: an estimated distance deviates by {noise:.3g}, more than eps = "
            f"{self.eps:g}. DBSCAN needs epsilons that protect nobody; for numbers use "
            "LocalPrivateKMeans."
            if noise > self.eps
            else ""
        )
        return self

    def _mechanism(self, columns: int) -> BitReports:
        random = SecureRandom.public(self.seed_)
        if self.published:
            t = max(1, (self.ub + 1) // 2)
            return privbv_as_published(
                columns, self.ub, b=self.epsilon, bits=self.bits, t=t, random=random
            )
        return privbv(columns, self.ub, epsilon=self.epsilon, bits=self.bits, random=random)
