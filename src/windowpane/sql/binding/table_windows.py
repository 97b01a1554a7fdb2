"""Queries over Flink's table functions: what fits the window that they mean."""

from __future__ import annotations

from collections.abc import Sequence

from windowpane.core.windows import Session
from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.query import GroupKey, QueryKind
from windowpane.sql.syntax.statement import SelectStmt


def check_table_window(stmt: SelectStmt, kind: QueryKind, keys: Sequence[GroupKey], rows: RowExpressions) -> None:
    """Refuse queries that mean something else over a table function than over a window of ours."""
    window = stmt.window
    if window is None or window.table is None:
        return
    if kind == "aggregate" and not stmt.by_window:
        message = f"aggregates over {window.spelling} in FROM need the window in GROUP BY: a stream never ends"
        raise stmt.source.error("GROUP_BY_WINDOW", message, "write GROUP BY window_start, window_end", at=window.span)
    if isinstance(window.spec, Session):
        _check_sessions(stmt, keys, rows)


def _check_sessions(stmt: SelectStmt, keys: Sequence[GroupKey], rows: RowExpressions) -> None:
    """Each group has sessions of its own, so what divides the rows into sessions must be what groups them."""
    assert stmt.window is not None
    assert stmt.window.table is not None
    given = stmt.window.table.partition_by or ()
    wanted = {rows.bind(each, "PARTITION BY").text for each in given}
    found = {key.expr.text for key in keys}
    if wanted == found:
        return
    shown = f"PARTITION BY {', '.join(sorted(wanted))}" if wanted else "no PARTITION BY"
    message = f"SESSION has {shown}, and GROUP BY has {', '.join(sorted(found)) or 'no keys'}"
    hint = "sessions are those of each group: name the same columns in both"
    if not stmt.is_grouped:
        columns = ", ".join(sorted(wanted))
        hint = f"group by the same columns: SELECT {columns}, collect_list(price) AS prices … GROUP BY {columns}, "
        hint += "window_start, window_end; without PARTITION BY, SESSION gives the rows of sessions over all rows"
    raise stmt.source.error("GROUP_BY_WINDOW", message, hint, at=given[0] if given else stmt.window.span)
