"""Why a row cannot be evaluated."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import side
from windowpane.evaluation.expressions import Columns, Computed, guard_texts

EVALUATION_ERROR = side.EVALUATION
"""The reason of a row on which an expression fails in a way that no guard has a name for."""


def blame(
    failed: Columns, computed: Mapping[str, Computed], source: pa.RecordBatch | pa.Table
) -> tuple[pa.Array, pa.Array]:
    """Of each row the reason and the detail, by the first expression in the order of `computed` that has failed."""
    nothing = pa.nulls(source.num_rows, pa.string())
    reasons, details = [nothing], [nothing]
    for name, each in computed.items():
        if name in failed:
            unknown = pa.repeat(pa.scalar(EVALUATION_ERROR), source.num_rows)
            why = unknown if each.guard is None else pc.coalesce(guard_texts(each.guard, source), unknown)
            reasons.append(pc.if_else(failed[name], why, nothing))
            details.append(pc.if_else(failed[name], f"cannot compute {each.words}", nothing))
    return pc.coalesce(*reasons), pc.coalesce(*details)
