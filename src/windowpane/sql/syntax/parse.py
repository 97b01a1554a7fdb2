"""Text to statement: tokens, our clauses, Spark's syntax. Refuses every construct that cannot run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.errors import Span, SqlError
from windowpane.sql.syntax.clause_readers import read_emit, read_watermark, read_window_clause
from windowpane.sql.syntax.clauses import ORDER, refuse_unseen, split_clauses, with_window_functions
from windowpane.sql.syntax.dialect import QuerySyntaxError, parse_tokens, tokenize
from windowpane.sql.syntax.refusals import refuse_select_parts, refuse_window
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import OrderSyntax, SelectStmt, WindowSyntax
from windowpane.sql.syntax.window_functions import read_window, window_name

Result = TypeVar("Result")

MAX_LENGTH = 200_000


def parse(sql: str) -> SelectStmt:
    """The statement of a text; SqlError with the place of what is wrong."""
    return guarded(sql, lambda: _parse(read_source(sql)))


def guarded(sql: str, step: Callable[[], Result]) -> Result:
    """Run a step over a syntax tree. Text that is nested too deeply for Python's stack becomes an error."""
    try:
        return step()
    except RecursionError:
        hint = "break long chains of conditions up, for example with IN (…)"
        raise SqlError("TOO_DEEP", "the query is nested too deeply", hint, sql=sql, span=Span(0, 1)) from None


def read_source(sql: str) -> SourceText:
    """The text's tokens without a closing semicolon; refuses what is not one SELECT."""
    if len(sql) > MAX_LENGTH:
        message = f"the query has {len(sql):,} characters, more than {MAX_LENGTH:,}"
        raise SqlError("TOO_LONG", message, sql=sql[:200], span=Span(0, 1))
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        at = Span(error.start, error.start + 1)
        raise SqlError("BAD_CHARACTER", "a lone surrogate", "write the complete character", sql=sql, span=at) from None
    try:
        tokens = tokenize(sql)
    except TokenError:
        raise _unreadable(sql) from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    source = SourceText(sql, with_window_functions(tokens))
    _check_start(source)
    return source


def _unreadable(sql: str) -> SqlError:
    start = _unclosed(sql)
    what = {"'": "a string", '"': "a string", "`": "a quoted name", "/": "a comment"}.get(
        sql[start : start + 1], "text"
    )
    message = f"{what} is not closed" if what != "text" else "the text cannot be parsed"
    return SqlError("SYNTAX", message, "close it", sql=sql, span=Span(start, start + 1))


def _unclosed(sql: str) -> int:
    """Where an unclosed quote or comment begins."""
    position = 0
    while position < len(sql):
        two, one = sql[position : position + 2], sql[position]
        if two == "--":
            end = sql.find("\n", position)
        elif two == "/*":
            end = sql.find("*/", position + 2)
            end = end + 1 if end >= 0 else -1
        elif one in "'\"`":
            end = _closing_quote(sql, position)
        else:
            end = position
        if end < 0:
            return position if two != "--" else 0
        position = end + 1
    return 0


def _closing_quote(sql: str, start: int) -> int:
    position = start + 1
    while position < len(sql):
        if sql[position] == "\\" and sql[start] != "`":
            position += 1
        elif sql[position] == sql[start]:
            return position
        position += 1
    return -1


def _check_start(source: SourceText) -> None:
    if not source.tokens:
        raise SqlError("EMPTY_QUERY", "there is no query", f"write {ORDER}", sql=source.sql)
    for token in source.tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise source.error("SEVERAL_STATEMENTS", "more than one statement", "write one SELECT", at=token)
    first = source.tokens[0]
    if first.token_type == TokenType.WITH:
        hint = "write the query without WITH; a UNION ALL may stand as a subquery in FROM"
        raise source.error("UNSUPPORTED_CTE", "WITH is not supported", hint, at=first)
    if first.token_type != TokenType.SELECT:
        raise source.error(
            "NOT_A_SELECT", f"a query starts with SELECT, not `{first.text}`", f"write {ORDER}", at=first
        )


def _parse(source: SourceText) -> SelectStmt:
    clauses = split_clauses(source)
    refuse_unseen(source, clauses.query)
    tree = syntax(source, lambda: parse_tokens(clauses.query, source.sql))
    select = refuse_select_parts(source, tree)
    group = select.args.get("group")
    window, keys = _split_group_by(source, group.expressions if group else [])
    if clauses.window:
        window = _only_window(source, window, syntax(source, lambda: read_window_clause(source, clauses.window)))
    order = select.args.get("order")
    return SelectStmt(
        source=source,
        projections=tuple(select.expressions),
        from_=select.args["from_"].this,
        joins=tuple(select.args.get("joins") or ()),
        where=_condition(select, "where"),
        window=window,
        group_by_exprs=tuple(keys),
        having=_condition(select, "having"),
        order_by=_order_by(order),
        order_span=source.span(order),
        limit=_limit(source, select),
        limit_span=source.span(select.args.get("limit")),
        watermark=read_watermark(source, clauses.watermark) if clauses.watermark else None,
        emit=read_emit(source, clauses.emit) if clauses.emit else None,
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


def _keyword(source: SourceText, kind: TokenType) -> Token | None:
    return next((token for token in source.tokens if token.token_type == kind), None)
