"""Renaming internal columns in canonical SQL text, for rules that merge what several names stand for."""

from __future__ import annotations

import re
from dataclasses import replace

from windowpane.sql.query import Expr

_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|\.\s*[A-Za-z_]\w*|[A-Za-z_]\w*""", re.DOTALL
)
"""Quoted text and field names after a dot are tokens too, so that nothing inside them is taken for a column."""


def rename_columns(expr: Expr, names: dict[str, str]) -> Expr:
    """The same expression over renamed columns.

    >>> rename_columns(Expr("_a1 / _a2 || '_a2'", None, ("_a1", "_a2")), {"_a2": "_a0"}).text
    "_a1 / _a0 || '_a2'"
    """
    text = _TOKEN.sub(lambda token: names.get(token[0], token[0]), expr.text)
    return replace(expr, text=text, columns=tuple(dict.fromkeys(names.get(name, name) for name in expr.columns)))
