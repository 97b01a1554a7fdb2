"""One SELECT: its tokens without those of its subqueries to a statement. Refuses every construct that cannot run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.errors import Span, SqlError
from windowpane.sql.syntax.clause_readers import read_emit, read_watermark, read_window_clause
from windowpane.sql.syntax.clauses import ORDER, refuse_unseen, split_clauses
from windowpane.sql.syntax.dialect import QuerySyntaxError, parse_tokens
from windowpane.sql.syntax.named_windows import take_named_windows
from windowpane.sql.syntax.refusals import refuse_select_parts, refuse_window
from windowpane.sql.syntax.source import SourceText, token_span
from windowpane.sql.syntax.statement import OrderSyntax, SelectStmt, WindowSyntax
from windowpane.sql.syntax.table_functions import take_table_function
from windowpane.sql.syntax.window_functions import read_window, window_name
from windowpane.sql.syntax.window_groups import without_window

Result = TypeVar("Result")


def parse_select(source: SourceText) -> SelectStmt:
    """The statement of the tokens of one SELECT, in which a placeholder stands for each subquery of FROM."""
    source = take_named_windows(source)
    source, table = syntax(source, lambda: take_table_function(source))
    clauses = split_clauses(source)
    refuse_unseen(source, clauses.query)
    tree = syntax(source, lambda: parse_tokens(clauses.query, source.sql))
    select = refuse_select_parts(source, tree)
    group = select.args.get("group")
    window, keys = _split_group_by(source, _grouped(source, group) if group else [])
    for other in (
        table,
        syntax(source, lambda: read_window_clause(source, clauses.window)) if clauses.window else None,
    ):
        window = window if other is None else _only_window(source, window, other)
    by_window, keys = without_window(source, window, keys)
    order = select.args.get("order")
    return SelectStmt(
        source=source,
        projections=tuple(select.expressions),
        from_=select.args["from_"].this,
        joins=tuple(select.args.get("joins") or ()),
        laterals=tuple(select.args.get("laterals") or ()),
        where=_condition(select, "where"),
        window=window,
        group_by_exprs=tuple(keys),
        by_window=by_window,
        having=_condition(select, "having"),
        qualify=_condition(select, "qualify"),
        order_by=_order_by(order),
        order_span=source.span(order),
        limit=_limit(source, select),
        limit_span=source.span(select.args.get("limit")),
        watermark=read_watermark(source, clauses.watermark) if clauses.watermark else None,
        emit=read_emit(source, clauses.emit) if clauses.emit else None,
        distinct=_distinct(source, select),
    )


def syntax(source: SourceText, step: Callable[[], Result]) -> Result:
    """Run a step of sqlglot; whatever it raises becomes a SqlError with a place in the text."""
    try:
        return step()
    except QuerySyntaxError as fault:
        raise _syntax_error(source, fault) from None
    except (SqlglotError, AttributeError, TypeError, ValueError, IndexError, KeyError, AssertionError) as error:
        raise source.error("SYNTAX", "the query cannot be parsed", f"write {ORDER}", at=source.tokens[0]) from error


def _syntax_error(source: SourceText, fault: QuerySyntaxError) -> SqlError:
    expected = str(fault).removeprefix("Expecting ") if str(fault).startswith("Expecting ") else None
    token = fault.token
    if token is None:
        end = source.tokens[-1].end + 1
        message = f"the query ends where `{expected}` is expected" if expected else "the query ends too early"
        return source.error("SYNTAX", message, f"write {ORDER}", at=Span(end, end))
    shown = source.sql[token.start : token.end + 1]
    message = f"expected `{expected}`, found `{shown}`" if expected else f"unexpected `{shown}`"
    return source.error("SYNTAX", message, f"write {ORDER}", at=token)


def _condition(select: exp.Expr, name: str) -> exp.Expr | None:
    clause = select.args.get(name)
    return clause.this if clause is not None else None


def _split_group_by(source: SourceText, items: Sequence[exp.Expr]) -> tuple[WindowSyntax | None, list[exp.Expr]]:
    window: WindowSyntax | None = None
    keys: list[exp.Expr] = []
    for item in items:
        if window_name(item) is None:
            refuse_window(source, item)
            keys.append(item)
        else:
            window = _only_window(source, window, read_window(source, item))
    return window, keys


def _grouped(source: SourceText, group: exp.Expr) -> Sequence[exp.Expr]:
    """The items of GROUP BY. WITH ROLLUP, WITH CUBE and GROUPING SETS behind them mean all of them but the window."""
    after = [each for name in ("rollup", "cube", "grouping_sets") for each in group.args.get(name) or ()]
    if not after:
        return list(group.expressions)
    windows = [item for item in group.expressions if window_name(item) is not None]
    keys = [item for item in group.expressions if window_name(item) is None]
    if len(after) > 1 or any(isinstance(key, (exp.Rollup, exp.Cube, exp.GroupingSets)) for key in keys):
        hint = "write GROUPING SETS ((a, b), (a), ())"
        raise source.error("GROUPING_SETS", "ROLLUP, CUBE and GROUPING SETS behind others", hint, at=group)
    if not isinstance(after[0], exp.GroupingSets):
        after[0].set("expressions", keys)
    return [*windows, after[0]]


def _only_window(source: SourceText, before: WindowSyntax | None, window: WindowSyntax) -> WindowSyntax:
    if before is not None:
        message = f"a second window: `{window.spelling}` after `{before.spelling}`"
        raise source.error("TWO_WINDOWS", message, "a query has one window; leave one out", at=window.span)
    return window


def _order_by(order: exp.Expr | None) -> tuple[OrderSyntax, ...]:
    return tuple(
        OrderSyntax(item.this, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
        for item in (order.expressions if order is not None else ())
    )


def _limit(source: SourceText, select: exp.Expr) -> int | None:
    limit = select.args.get("limit")
    if limit is None:
        return None
    value = limit.args.get("expression")
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        at = value if isinstance(value, exp.Expr) and source.span(value) else _keyword(source, TokenType.LIMIT)
        raise source.error("BAD_LIMIT", "LIMIT needs a whole number", "write LIMIT 10", at=at)
    return int(value.name)


def _distinct(source: SourceText, select: exp.Expr) -> Span | None:
    if select.args.get("distinct") is None:
        return None
    token = _keyword(source, TokenType.DISTINCT)
    return token_span(token) if token is not None else source.span(select)


def _keyword(source: SourceText, kind: TokenType) -> Token | None:
    return next((token for token in source.tokens if token.token_type == kind), None)
