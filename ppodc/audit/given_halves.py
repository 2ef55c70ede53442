"""Halves that a cloud has handed to owners, compared with those that its replay gives.

The ledger of an audited job has a digest of every half that was handed out, before it leaves. An
owner's client refuses a half that is not in the ledger as it came. So a cloud that hands out
another half than it computed is found by the owner, or by the auditor.
"""

import json
from collections.abc import Sequence
from typing import Any

from ppodc.errors import DeviationError
from ppodc.records.result_shares import ResultShare, half_width, halves_digest, pack_facts
from ppodc.service.ledger_entries import HALF_GIVEN, Entry
from ppodc.service.messages import ROWS_PIECE
from ppodc.service.sealed_uploads import Sealed


def check_given(
    dataset: str, ledger: Sequence[Entry], sealed: Sealed, result: ResultShare | None
) -> None:
    """DeviationError if the cloud has given a half that the protocol does not give there."""
    for entry in ledger:
        if entry.dataset != dataset or not entry.event.endswith(HALF_GIVEN):
            continue
        if result is None:
            raise DeviationError("it has given halves of a result that the job did not reach.")
        name, detail = entry.event.removesuffix(HALF_GIVEN).strip(), json.loads(entry.detail)
        try:
            expected = _digest(name, detail, sealed, result)
        except (KeyError, TypeError, ValueError):
            expected = ""
        if detail.get("half") != expected:
            raise DeviationError(
                f"the half of {name} that it gave to {detail.get('owner')}, by entry "
                f"{entry.number} of its ledger, is not what the protocol gives."
            )


def _digest(name: str, detail: dict[str, Any], sealed: Sealed, result: ResultShare) -> str:
    if name == "result":
        own = {output: by[detail["owner"]] for output, by in result.own_halves.items()}
        return halves_digest({**result.halves, **own}, pack_facts(result.facts))
    half, first = result.row_halves[name], int(detail["first_row"])
    ((place, rows),) = [
        (place, upload.rows)
        for place, upload in sealed.places()
        if (upload.upload_id, upload.owner) == (detail["upload"], detail["owner"])
    ]
    most = max(1, ROWS_PIECE // half_width(half.modulus))
    return halves_digest({name: half.rows(place + first, max(0, min(most, rows - first)))})
