"""Names of columns: finding one as Spark does (any letter case), and writing it in canonical SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence

from windowpane.sql.query import Column

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def find_column(columns: Sequence[Column], name: str) -> Column | None:
    folded = name.lower()
    return next((column for column in columns if column.name.lower() == folded), None)


def quote(name: str) -> str:
    """The name as it stands in an expression.

    >>> quote("price"), quote("@timestamp")
    ('price', '`@timestamp`')
    """
    return name if _BARE.fullmatch(name) else f"`{name.replace('`', '``')}`"
