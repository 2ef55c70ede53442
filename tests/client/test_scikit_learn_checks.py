"""scikit-learn's own checks of estimators; one that cannot hold has a test of its own."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_clusterer_compute_labels_predict,
    check_clustering,
    check_estimator,
    check_estimators_partial_fit_n_features,
    check_non_transformer_estimators_n_iter,
)

from ppodc import LocalPrivateDBSCAN, LocalPrivateKMeans, SecureKMeans, SecureTotals, Spec
from ppodc import ThreadPlatform as Threads
from ppodc.pairs.progress import Listener, ignore
from ppodc.service.sealed_uploads import Sealed


class Remembering(Threads):
    """Does not run the same job on the same records twice: the result would be the same."""

    def __init__(self) -> None:
        super().__init__(insecure_key_bits=256)
        self._known: dict[tuple[str, ...], list[Any]] = {}

    def run(
        self,
        spec: Spec,
        tables: Sequence[np.ndarray],
        suite: str | None = None,
        progress: Listener = ignore,
        on_seal: Callable[[Sealed], None] = lambda _: None,
    ) -> list[Any]:
        job = (spec.digest, *(table.tobytes().hex() for table in tables))
        if job not in self._known:
            self._known[job] = super().run(spec, tables, suite, progress, on_seal)
        return self._known[job]


PLATFORM = Remembering()
ESTIMATORS = [
    SecureKMeans(2, bounds="data", min_size=1, max_iter=2, random_state=0, platform=PLATFORM),
    SecureTotals(bounds="data", least=1, platform=PLATFORM),
    LocalPrivateKMeans(2, bounds="data", random_state=0, insecure_noise_seed=1),
    LocalPrivateDBSCAN(bits=8, bounds=(-1000, 1000), random_state=0, insecure_noise_seed=1),
]
# `check_estimator` makes these checks of subclasses of ClusterMixin alone.
OF_CLUSTERERS = [
    check_clusterer_compute_labels_predict,
    check_clustering,
    partial(check_clustering, readonly_memmap=True),
    check_estimators_partial_fit_n_features,
    check_non_transformer_estimators_n_iter,
]
CLUSTERERS = [ESTIMATORS[0], ESTIMATORS[2]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_checks_of_scikit_learn(estimator):
    """`LocalPrivateKModes` and `LocalPrivateKPrototypes` (columns of categories, the checks' are
    not) and `RecordLinkage` (one table has nobody to be linked with) are left out."""
    logs = check_estimator(estimator, on_skip=None)
    assert sum(log["status"] == "passed" for log in logs) > 35


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", CLUSTERERS, ids=lambda each: type(each).__name__)
def test_checks_of_clusterers(estimator):
    for check in OF_CLUSTERERS:
        check(type(estimator).__name__, clone(estimator))


@pytest.mark.filterwarnings("ignore")
def test_a_small_epsilon_for_all_bits_hides_clusters_of_50_records():
    """`check_clustering` cannot hold for DBSCAN under local privacy."""
    with pytest.raises(AssertionError):
        check_clustering("LocalPrivateDBSCAN", clone(ESTIMATORS[-1]))
