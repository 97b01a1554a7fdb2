"""Why a row cannot be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

EVALUATION_ERROR = "evaluation_error"
"""The reason of a row on which an expression fails in a way that no guard has a name for."""


def told_of(
    failed: Mapping[str, pa.Array],
    blamed: Sequence[tuple[str, str | None, str]],
    text_of: Callable[[str], pa.Array],
    count: int,
) -> tuple[pa.Array, pa.Array]:
    """Of each row the reason and the detail, by the first column in the order of `blamed` that has failed there.

    `blamed`: a column's name, the text of its guard if it has one, and the expression for people. `text_of` evaluates
    a guard.
    """
    reasons, details = [pa.nulls(count, pa.string())], [pa.nulls(count, pa.string())]
    for name, guard, words in blamed:
        if name in failed:
            unknown = pa.repeat(pa.scalar(EVALUATION_ERROR), count)
            why = unknown if guard is None else pc.coalesce(text_of(guard), unknown)
            reasons.append(pc.if_else(failed[name], why, reasons[0]))
            details.append(pc.if_else(failed[name], f"cannot compute {words}", details[0]))
    return pc.coalesce(*reasons), pc.coalesce(*details)
