"""A commented spec file of a k-means job over joined columns."""

import json
from collections.abc import Sequence

OWNERS = ("owner1", "owner2")  # as in the sample table of owners

_SAMPLE = """\
# A ppodc dataset: columns of several sides about the same people, and the job all owners agree to.
# Every owner must use this very file: its digest is the identity of the dataset.

name = "clinic-and-insurer"  # letters, digits, '.', '_' and '-'

[schema]
ub = 1000                    # values become whole numbers 0..ub (at most 1048576)
# low and high are public; a value outside them is refused. Choose them by meaning, not from the
# data. held_by names the owners who have a column; owners with the same columns are one side, and
# each must hold at least one. All owners have the other columns, by which people are joined: texts,
# and numbers with use = "link". A number without either joins and is clustered by the anchor's
# value. Owners' tables name their columns; the order does not matter.
columns = [
    { name = "surname", text = "words", longest = 20 },
    { name = "birth_year", low = 1900, high = 2030, use = "link" },
    { name = "severity", low = 0, high = 10, held_by = %(first)s },
    { name = "stays", low = 0, high = 50, held_by = %(first)s },
    { name = "cost", low = 0, high = 200000, held_by = %(second)s },
]

# k-means over severity, stays and cost of the people whom both sides hold. All keys of `ppodc
# sample-spec`. For totals instead: kind = "totals" with variance, and cross = true for covariances.
[job]
k = 4                        # clusters, 1 to 64, or several such as [2, 3, 4]
max_iter = 30                # if nobody is joined, all of them take place
# iterations = 15            # instead: exactly so many; then nothing hints at how many are joined
init = "k-means++"           # all but the first start are joined people
seed = 1
# sizes = false              # centres in whole steps, and nobody learns how many are joined
# May owners on the anchor's side fetch the cluster of each of their rows, or that it is not joined?
# They then learn whom the other sides hold too, and whose values a centre averages.
labels = false
# Owners learn nothing of a cluster of fewer joined people. Of several owners of the same columns
# each counts those that hold a row of another one, also for least.
min_size = 5

[join]
# "1:1": people who have each other and nobody else. "m:1": rows of the anchor with one partner,
# whom several rows may share (visits of one insured person). A row with several partners counts
# for nobody: `ppodc link preview` shows an owner its own duplicates.
relation = "1:1"
anchor = %(anchor)s            # whose rows are clustered: the side with fewer rows
least = 20                   # with fewer joined people all is told as 0
# Rules and blocks are those of `ppodc sample-spec --kind linkage`.
rule = "fields"
threshold = 3
fields = [
    { column = "surname", compare = "edit", max = 1, weight = 2 },
    { column = "birth_year", compare = "exact", weight = 1 },
]
blocks = "none"
"""


def sample(owners: Sequence[str] = OWNERS) -> str:
    """The sample for these owners: the first holds some columns, the others hold the rest."""
    first, *others = owners
    return _SAMPLE % {
        "first": json.dumps([first]),
        "second": json.dumps(others),
        "anchor": json.dumps(first),
    }
