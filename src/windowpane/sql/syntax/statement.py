"""The parsed statement: syntax with its windows read, before any name is looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from windowpane.core.windows import WindowSpec
from windowpane.errors import Span
from windowpane.sql.query import Emit, Watermark
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.source import SourceText


@dataclass(frozen=True)
class TableSyntax:
    """A window that a table function in FROM means: its rows have the columns of the window."""

    partition_by: tuple[exp.Expr, ...] | None = None
    """Of `SESSION(TABLE bids PARTITION BY …)`: each group has sessions of its own."""


@dataclass(frozen=True)
class WindowSyntax:
    """The window as written: its numbers are checked, its expressions are not yet bound."""

    spec: WindowSpec
    spelling: str
    """How it was written: `tumblingwindow`, `window`, `TUMBLING` …"""
    span: Span | None
    on: exp.Expr | None = None
    partition_by: tuple[exp.Expr, ...] = ()
    when: exp.Expr | None = None
    open: exp.Expr | None = None
    emit: exp.Expr | None = None
    table: TableSyntax | None = None
    name: Token | None = None
    """`w` of `WINDOW w AS (…)`."""


@dataclass(frozen=True)
class OrderSyntax:
    expr: exp.Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class SelectStmt:
    """One SELECT. `window` is the window wherever it was written, `group_by_exprs` the other GROUP BY expressions."""

    source: SourceText
    projections: tuple[exp.Expr, ...]
    from_: exp.Expr
    joins: tuple[exp.Join, ...] = ()
    laterals: tuple[exp.Expr, ...] = ()
    where: exp.Expr | None = None
    window: WindowSyntax | None = None
    group_by_exprs: tuple[exp.Expr, ...] = ()
    by_window: bool = False
    """GROUP BY names the window: there are groups, also without other expressions."""
    having: exp.Expr | None = None
    qualify: exp.Expr | None = None
    order_by: tuple[OrderSyntax, ...] = ()
    order_span: Span | None = None
    limit: int | None = None
    limit_span: Span | None = None
    watermark: Watermark | None = None
    emit: Emit | None = None
    distinct: Span | None = None
    """Where SELECT DISTINCT stands."""
    queries: Mapping[str, Statement] = field(default_factory=dict)
    """The queries that FROM and JOIN read, by the (lower-case) name of the table that stands for them there."""
    owner: str = ""
    """The transform that it was read from by name; none for the query itself."""
    transforms: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    """Of the whole query: the transforms, and the streams and tables, that its own text reads."""

    @property
    def is_grouped(self) -> bool:
        return self.by_window or bool(self.group_by_exprs)

    def trees(self) -> Iterator[exp.Expr]:
        """All syntax trees of the statement, those of its window included."""
        window = self.window
        given = (window.on, *window.partition_by, window.when, window.open, window.emit) if window else ()
        given += (window.table.partition_by or ()) if window and window.table else ()
        ordered = (key.expr for key in self.order_by)
        parts = (*self.projections, self.from_, *self.joins, *self.laterals, self.where, *self.group_by_exprs)
        return (tree for tree in (*parts, self.having, self.qualify, *ordered, *given) if tree is not None)

    def first_over(self) -> exp.Window | None:
        """The first window function (`rank() OVER (…)`) of SELECT, QUALIFY and ORDER BY."""
        trees = (*self.projections, self.qualify, *(key.expr for key in self.order_by))
        return next((part for tree in trees if tree is not None for part in tree.find_all(exp.Window)), None)

    def describe(self) -> list[str]:
        """Lines for goldens: the window and the group keys, in order."""
        window = [f"window: {self.window.spec}"] if self.window else []
        return window + [f"group by: {render(expression)}" for expression in self.group_by_exprs]


@dataclass(frozen=True)
class UnionStmt:
    """`SELECT … UNION ALL SELECT …`."""

    source: SourceText
    branches: tuple[SelectStmt, ...]
    span: Span


Statement: TypeAlias = SelectStmt | UnionStmt
