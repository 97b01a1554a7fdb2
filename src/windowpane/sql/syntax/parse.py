"""Text to statement: the tokens of a query, checked before they are parsed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from windowpane.errors import Span, SqlError
from windowpane.sql.syntax.clauses import ORDER, with_window_functions
from windowpane.sql.syntax.dialect import tokenize
from windowpane.sql.syntax.queries import parse_statement
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import SelectStmt
from windowpane.sql.syntax.transform_texts import gather_texts, place_in_text, whole_text

Result = TypeVar("Result")

MAX_LENGTH = 200_000


def parse(
    sql: str, queries: Mapping[str, str] | None = None, name: str = "", sources: Collection[str] = ()
) -> SelectStmt:
    """The statement of a text; SqlError with the place of what is wrong.

    `queries` are the texts of transforms that it can read by name; `name` is that of its own transform. `sources` are
    the names of streams and tables.
    """
    return guarded(sql, lambda: _parse(sql, queries or {}, name, {each.lower() for each in sources}))


def _parse(sql: str, queries: Mapping[str, str], name: str, sources: set[str]) -> SelectStmt:
    own, *others = texts = gather_texts(sql, queries, lambda text: read_source(text).tokens)
    return parse_statement(SourceText(whole_text(texts), own.tokens), others, name, sources)


def transform_at_fault(error: SqlError, sql: str, queries: Mapping[str, str]) -> str | None:
    """The transform in whose text a mistake is, if `sql` reads it by name. The error gets its place there."""
    if error.sql != sql and error.sql in queries.values():
        return next(name for name, text in queries.items() if text == error.sql)
    if error.sql == sql or not error.sql.startswith(sql):
        return None
    return place_in_text(error, gather_texts(sql, queries, lambda text: read_source(text).tokens)) or None


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
