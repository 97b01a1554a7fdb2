"""What the columnar scan and the harness evaluate for a projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windowpane.plan.node_fields import InputColumn
from windowpane.sql import SessionFacts, Translated, translate_expression


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
