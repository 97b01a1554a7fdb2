"""Groups of a query that reads the results of a windowed one and belongs to the same window.

`SELECT window_start, window_end, max(n) FROM (windowed query) GROUP BY window_start, window_end` is computed in the
micro-batch that closes the window, with window functions: each aggregate becomes one over the rows of its group, and
one row of each group is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from windowpane.errors import SqlError
from windowpane.sql.binding.aggregates import aggregate_name
from windowpane.sql.binding.group_keys import is_ordinal
from windowpane.sql.query import BoundQuery
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.statement import SelectStmt

_BOUNDS = ("window_start", "window_end")
_BY = {"max_by": True, "min_by": False}


def has_groups(stmt: SelectStmt) -> bool:
    """Whether the statement groups or aggregates rows."""
    ordered = (key.expr for key in stmt.order_by)
    trees = (*stmt.projections, stmt.having, stmt.qualify, *ordered)
    aggregated = any(aggregate_name(part) for tree in trees if tree is not None for part in tree.walk())
    return aggregated or bool(stmt.group_by_exprs)


def by_window_functions(stmt: SelectStmt, inner: BoundQuery) -> SelectStmt:
    """The statement without groups; SqlError if it does not group by the window of the inner query."""
    return _Rewriting(stmt, inner).rewritten()


@dataclass(frozen=True)
class _Rewriting:
    stmt: SelectStmt
    inner: BoundQuery

    def rewritten(self) -> SelectStmt:
        stmt, items = self.stmt, list(self._items())
        self._check_window(items)
        over = stmt.first_over()
        if over is not None:
            hint = "group in a subquery, and use the window function around it"
            raise self._error("NESTED_OVER", "a window function over groups of results is not supported", hint, over)
        keys = [item for item in items if self._bound_of(item) not in _BOUNDS]
        texts = {_text(item) for item in items}
        first = exp.Window(
            this=exp.Anonymous(this="row_number", expressions=[]), over="OVER",
            partition_by=[key.copy() for key in keys], order=_ascending(items[0].copy(), descending=False),
        )  # fmt: skip
        only: exp.Expr = exp.EQ(this=first, expression=exp.Literal.number(1))
        conditions = [self._over(tree, keys, texts) for tree in (stmt.having, stmt.qualify) if tree is not None]
        for condition in conditions:
            only = exp.And(this=only, expression=exp.Paren(this=condition))
        return replace(
            stmt,
            projections=tuple(self._selected(item, keys, texts) for item in stmt.projections),
            group_by_exprs=(),
            having=None,
            qualify=only,
            order_by=tuple(replace(key, expr=self._ordered(key.expr, keys, texts)) for key in stmt.order_by),
        )

    def _items(self) -> Iterator[exp.Expr]:
        """The items of GROUP BY, with what numbers and aliases stand for."""
        named = {item.alias.lower(): item.this for item in self.stmt.projections if isinstance(item, exp.Alias)}
        columns = {output.name.lower() for output in self.inner.outputs}
        for item in self.stmt.group_by_exprs:
            node = item.unnest()
            if is_ordinal(node) and 1 <= int(node.name) <= len(self.stmt.projections):
                chosen = self.stmt.projections[int(node.name) - 1]
                node = chosen.this if isinstance(chosen, exp.Alias) else chosen
            elif isinstance(node, exp.Column) and node.name.lower() not in columns:
                node = named.get(node.name.lower(), node)
            yield node

    def _bound_of(self, item: exp.Expr) -> str | None:
        """The column of the window that an item is."""
        if not isinstance(item, exp.Column):
            return None
        texts = {output.name.lower(): output.expr.text for output in self.inner.outputs}
        return texts.get(item.name.lower())

    def _check_window(self, items: list[exp.Expr]) -> None:
        if not {self._bound_of(item) for item in items}.issuperset(_BOUNDS):
            message = "a query over the results of a windowed one groups by their window_start and window_end"
            hint = "select both in the subquery and group by both, or give this query a window of its own"
            at = self.stmt.group_by_exprs[0] if self.stmt.group_by_exprs else self.stmt.projections[0]
            raise self._error("NEEDS_WINDOW", message, hint, at)
        if self.inner.emit.mode != "close":
            message = "groups of results need all rows of a window, and an update is one group's row"
            raise self._error("OVER_WITH_UPDATES", message, "use EMIT ON WINDOW CLOSE", self.stmt.group_by_exprs[0])

    def _selected(self, item: exp.Expr, keys: list[exp.Expr], texts: set[str]) -> exp.Expr:
        if item.is_star:
            raise self._error("UNSUPPORTED_STAR", "`*` is not allowed with GROUP BY", "list the columns", item)
        if isinstance(item, exp.Alias):
            item.set("this", self._over(item.this, keys, texts))
            return item
        if isinstance(item, exp.Column):
            return self._over(item, keys, texts)
        name = render(item.copy())
        return exp.Alias(this=self._over(item, keys, texts), alias=exp.to_identifier(name, quoted=True))

    def _ordered(self, node: exp.Expr, keys: list[exp.Expr], texts: set[str]) -> exp.Expr:
        """An item of ORDER BY; numbers and aliases stay."""
        names = {item.alias.lower() for item in self.stmt.projections if isinstance(item, exp.Alias)}
        if is_ordinal(node) or (isinstance(node, exp.Column) and node.name.lower() in names):
            return node
        return self._over(node, keys, texts)

    def _over(self, node: exp.Expr, keys: list[exp.Expr], texts: set[str]) -> exp.Expr:
        """The expression with window functions for its aggregates; its other columns must be keys."""
        names = {item.alias.lower() for item in self.stmt.projections if isinstance(item, exp.Alias)}

        def step(part: exp.Expr) -> exp.Expr:
            if aggregate_name(part):
                return self._window(part, keys)
            if isinstance(part, exp.Identifier):
                return part
            if _text(part) in texts:
                # A new node: transform does not look into it.
                return part if isinstance(part, exp.Column) else exp.Paren(this=part.copy())
            if isinstance(part, exp.Column) and part.find_ancestor(exp.Window) is None:
                if part.name.lower() in names and self._bound_of(part) is None:
                    return part
                shown = self.stmt.source.quote(part) or part.name
                hint = f"add `{shown}` to GROUP BY, or take one value of it: any_value({shown})"
                raise self._error("NOT_GROUPED", f"`{shown}` is neither grouped nor aggregated", hint, part)
            return part

        return node.transform(step, copy=False)

    def _window(self, call: exp.Expr, keys: list[exp.Expr]) -> exp.Expr:
        partition = [key.copy() for key in keys]
        name = aggregate_name(call)
        if name in _BY and isinstance(call, exp.Anonymous) and len(call.expressions) == 2:
            value, by = call.expressions
            first = exp.Window(
                this=exp.Anonymous(this="first_value", expressions=[value]), over="OVER", partition_by=partition,
                order=_ascending(by.copy(), descending=_BY[name]),
            )  # fmt: skip
            count = exp.Anonymous(this="count", expressions=[by])
            known = exp.Window(this=count, partition_by=[key.copy() for key in keys], over="OVER")
            some = exp.GT(this=known, expression=exp.Literal.number(0))
            return exp.Case(ifs=[exp.If(this=some, true=first)])
        return exp.Window(this=call.copy(), partition_by=partition, over="OVER")

    def _error(self, code: str, message: str, hint: str, at: exp.Expr) -> SqlError:
        return self.stmt.source.error(code, message, hint, at=at)


def _ascending(node: exp.Expr, *, descending: bool) -> exp.Order:
    """ORDER BY of one expression, with NULL last."""
    return exp.Order(expressions=[exp.Ordered(this=node, desc=descending, nulls_first=False)])


def _text(node: exp.Expr) -> str:
    return render(node.copy()).lower()
