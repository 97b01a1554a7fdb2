"""What the columnar scan and the harness evaluate for a projection: its columns, and why a row cannot be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.plan.node_fields import InputColumn
from windowpane.sql import SessionFacts, Translated, translate_expression

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


def conditions_of(columns: Sequence[InputColumn]) -> dict[str, tuple[str, ...]]:
    """For each column the conditions under which SQL evaluates it: WHERE, and the FILTER of an aggregate's argument."""
    where = [column.expr.text for column in columns if column.role == "where"]
    filters = {column.name.removesuffix("_f"): column.expr.text for column in columns if column.role == "filter"}
    found = {}
    for column in columns:
        own = filters.get(column.name.rpartition("_")[0]) if column.role == "argument" else None
        found[column.name] = () if column.role == "where" else (*where, *([own] if own else []))
    return found


def translate_under(
    text: str,
    conditions: Sequence[str],
    types: Mapping[str, str | None],
    session: SessionFacts | None = None,
) -> Translated:
    """An expression; one that can fail is NULL where its conditions do not hold, since SQL would not evaluate it."""
    found = translate_expression(text, types, session)
    if not found.fails or not conditions:
        return found
    held = " AND ".join(f"({condition})" for condition in conditions)
    return translate_expression(f"CASE WHEN {held} THEN {text} END", types, session)
