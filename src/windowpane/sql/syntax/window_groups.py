"""GROUP BY of a window that is written elsewhere: by its name, or by the columns that a table function gives."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import WindowSyntax

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
"""The columns that a table function adds to those of its table."""


def without_window(
    source: SourceText, window: WindowSyntax | None, keys: Sequence[exp.Expr]
) -> tuple[bool, list[exp.Expr]]:
    """Whether GROUP BY names the window, and the other expressions in it."""
    if window is None or (window.table is None and window.name is None):
        return False, list(keys)
    if window.name is not None:
        return _by_name(source, window, keys)
    named = [key for key in keys if _column(key) in WINDOW_COLUMNS]
    rest = [key for key in keys if _column(key) not in WINDOW_COLUMNS]
    if keys and not {"window_start", "window_end"} <= {_column(key) for key in named}:
        message = f"{window.spelling} in FROM needs both bounds of the window in GROUP BY"
        raise source.error(
            "GROUP_BY_WINDOW", message, "write GROUP BY window_start, window_end, …", at=(rest or named)[0]
        )
    return bool(named), rest


def _by_name(source: SourceText, window: WindowSyntax, keys: Sequence[exp.Expr]) -> tuple[bool, list[exp.Expr]]:
    assert window.name is not None
    name = window.name.text
    rest = [key for key in keys if _column(key) != name.lower()]
    if len(rest) == len(keys):
        hint = f"write GROUP BY {name}, or WINDOW {window.spec.clause_form()} without a name"
        raise source.error("GROUP_BY_WINDOW", f"nothing uses the window `{name}`", hint, at=window.name)
    return True, rest


def _column(key: exp.Expr) -> str:
    """The lower-case name of a column, qualified or not."""
    return key.name.lower() if isinstance(key, exp.Column) and len(key.parts) <= 2 else ""
