"""FROM and the window of a bound query as canonical text."""

from __future__ import annotations

from windowpane.sql.query import Relation, UnionBranch, Window
from windowpane.sql.types import quoted


def relation_text(relation: Relation) -> str:
    """What a query reads, with the queries that it reads in turn."""
    if relation.query is not None:
        return f"({relation.query.canonical})" + (f" AS {quoted(relation.alias)}" if relation.alias else "")
    if relation.stream_join is not None:
        base = relation.stream_join.text
    elif relation.branches:
        inner = " UNION ALL ".join(_branch(branch) for branch in relation.branches)
        base = f"({inner})" + (f" AS {quoted(relation.alias)}" if relation.alias else "")
    else:
        stream = relation.streams[0]
        named = stream.alias != stream.name and relation.tables
        base = quoted(stream.name) + (f" AS {quoted(stream.alias)}" if named else "")
    return " ".join([base, *(join.text for join in relation.joins)])


def _branch(branch: UnionBranch) -> str:
    items = ", ".join(f"{expr.text} AS {quoted(name)}" for name, expr in branch.projection)
    where = f" WHERE {branch.where.text}" if branch.where else ""
    source = quoted(branch.stream.name) if branch.query is None else f"({branch.query.canonical})"
    return f"SELECT {items} FROM {source}{where}"


def window_text(window: Window) -> tuple[list[str], str]:
    """The window as a GROUP BY function (count, state) or as a clause (all that have a time)."""
    spec = window.spec
    over = _over(window)
    if not spec.parts:
        conditions = (expr.text for expr in (window.open, window.emit) if expr)
        return [f"{spec.kind}window({', '.join([*map(str, spec.arguments()), *conditions])}){over}"], ""
    on = f" ON {window.on.text}" if window.on else ""
    return [], f"WINDOW {spec.clause()}{over}{on}"


def _over(window: Window) -> str:
    partition = f"PARTITION BY {', '.join(expr.text for expr in window.partition_by)}" if window.partition_by else ""
    when = f"WHEN {window.when.text}" if window.when else ""
    inner = " ".join(part for part in (partition, when) if part)
    return f" OVER ({inner})" if inner else ""
