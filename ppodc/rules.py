"""Rules and blocks of record linkage, by the names that a spec file has for them.

Rules say which rows match: `fields` of `exact`, `edit` and `numeric` parts (`all_of`: every part
must agree) or of parts with several weights (`levels`, `grams`, `date`, `swapped`, `frequency`),
`sse`, `edit_distance`, `dice`. Blocks say which pairs are compared: `by_key` (`key` for a part of a
text), `by_length`, `by_embedding`, `adtree`, `adtree_shared`; "none" compares all of them.
"""

from ppodc.linkage.blocks.embedding_blocks import by_embedding
from ppodc.linkage.blocks.key_blocks import by_key, key
from ppodc.linkage.blocks.length_blocks import by_length
from ppodc.linkage.blocks.tree_blocks import adtree, adtree_shared
from ppodc.linkage.rules import (
    all_of,
    date,
    dice,
    edit,
    edit_distance,
    exact,
    fields,
    frequency,
    grams,
    levels,
    numeric,
    sse,
    swapped,
)

__all__ = [
    "adtree",
    "adtree_shared",
    "all_of",
    "by_embedding",
    "by_key",
    "by_length",
    "date",
    "dice",
    "edit",
    "edit_distance",
    "exact",
    "fields",
    "frequency",
    "grams",
    "key",
    "levels",
    "numeric",
    "sse",
    "swapped",
]
