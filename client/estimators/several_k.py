"""Several numbers of clusters in one job: a result for each, and which number to take."""

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from client.estimators.base import Estimator
from ppodc.errors import OptionError
from ppodc.extras import named_if_missing

if TYPE_CHECKING:
    import pandas as pd


class SeveralNumbers(Estimator):
    """The part of `SecureKMeans` for several numbers of clusters."""

    inertia_: float | None
    inertia_in_ranges_: float | None
    result_: Any
    _run: Any
    _keep: Any

    def fit_each(
        self,
        X: ArrayLike | Sequence[ArrayLike],  # noqa: N803
        n_clusters: Iterable[int],
    ) -> dict[int, Self]:
        """A fitted estimator for each number of clusters, all from one job.

        The records are taken in once; with `inertia` the results can be compared (`elbow`).
        """
        counts = sorted({int(k) for k in n_clusters})
        if len(counts) < 2:
            raise OptionError("n_clusters must be several numbers; `fit` takes a single one.")
        last = copy(self).set_params(n_clusters=counts[-1])
        ran, tables = last._run(X, counts)
        fitted = {}
        for k in counts:
            fitted[k] = copy(last).set_params(n_clusters=k)
            fitted[k]._keep(ran.spec, [result.by_k[k] for result in ran.results], tables)
        return fitted

    @named_if_missing()
    def elbow(
        self,
        X: ArrayLike | Sequence[ArrayLike],  # noqa: N803
        n_clusters: Iterable[int] = range(2, 9),
    ) -> "pd.DataFrame":
        """The inertia for several numbers of clusters, from one job; owners learn it for each.

        `inertia` is in squared steps of the grid, `in_ranges` with every column's range as 1, and
        `saved` is the part of the inertia of the number before that is gone. Where `saved` gets
        small, more clusters tell little more; `elbow(...).plot(y="in_ranges")` draws it. Inertia is
        over clusters that are told, so a number with clusters below `min_size` is NaN.
        """
        import pandas as pd

        fitted = copy(self).set_params(inertia=True).fit_each(X, n_clusters)
        whole = {k: each for k, each in fitted.items() if not each.result_.untold()}
        frame = pd.DataFrame(
            {
                "inertia": {k: each.inertia_ for k, each in whole.items()},
                "in_ranges": {k: each.inertia_in_ranges_ for k, each in whole.items()},
            },
            dtype=float,
        ).reindex(list(fitted))
        return frame.assign(saved=-frame["inertia"].pct_change(fill_method=None)).rename_axis(
            "n_clusters"
        )
