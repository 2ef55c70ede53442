"""Blocks of record linkage: which pairs are compared. A kind is one class in a file of its own."""

from typing import Any

from ppodc.errors import SpecError
from ppodc.linkage.blocks.blocking import Blocking, NoBlocks
from ppodc.linkage.blocks.embedding_blocks import EmbeddingBlocks
from ppodc.linkage.blocks.key_blocks import KeyBlocks
from ppodc.linkage.blocks.length_blocks import LengthBlocks
from ppodc.linkage.blocks.tree_blocks import OwnTree, SharedTree

__all__ = ["KEYS", "Blocking", "NoBlocks", "from_dict"]
_KINDS: dict[str, type[Blocking]] = {
    kind.kind: kind
    for kind in (NoBlocks, OwnTree, SharedTree, LengthBlocks, EmbeddingBlocks, KeyBlocks)
}
KEYS = (
    "blocks",
    *sorted({k for kind in _KINDS.values() for k in (*kind.required, *kind.optional)}),
)


def from_dict(table: dict[str, Any]) -> Blocking:
    """Parse {"blocks": KIND, ...} with the keys of that kind."""
    name = table.get("blocks", "none")
    if name not in list(_KINDS):
        raise SpecError(f"blocks must be one of {', '.join(_KINDS)}")
    return _KINDS[name].from_dict(table)
