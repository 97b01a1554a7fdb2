"""Flink's windowing table functions in FROM: `TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))`.

The table takes the place of the function, and the function becomes the window of the query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.errors import SqlError
from windowpane.sql.syntax.dialect import parse_expression
from windowpane.sql.syntax.refusals import refuse_unread
from windowpane.sql.syntax.source import SourceText, closings, nesting
from windowpane.sql.syntax.statement import TableSyntax, WindowSyntax
from windowpane.sql.syntax.window_functions import read_window

_FORMS = {
    "tumble": "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    "hop": "HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    "cumulate": "CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)",
    "session": "SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
}

_SELECT = ((TokenType.L_PAREN, "("), (TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM"))


def take_table_function(source: SourceText) -> tuple[SourceText, WindowSyntax | None]:
    """The tokens of a SELECT with the name of the table for a windowing function, and the window that it means."""
    tokens, depth = source.tokens, nesting(source.tokens)
    for index, token in enumerate(tokens):
        is_from = token.token_type == TokenType.FROM and tokens[index - 1].token_type != TokenType.DISTINCT
        if is_from and depth[index] == 0 and _name(tokens, index + 1):
            call = _Call.read(source, index + 1)
            shown = [*tokens[: index + 1], *call.table, *tokens[call.end :]]
            return SourceText(source.sql, shown), call.window()
    return source, None


def with_joined_functions(tokens: list[Token]) -> list[Token]:
    """The tokens of a SELECT with a subquery for each windowing function, if one of them stands in a join.

    `FROM TUMBLE(…) AS a JOIN TUMBLE(…) AS b` is `FROM (SELECT * FROM TUMBLE(…)) AS a JOIN (SELECT * FROM TUMBLE(…)) …`.
    """
    depth, closed_at = nesting(tokens), closings(tokens)
    places = [index for index, token in enumerate(tokens[:-1])
              if depth[index] == 0 and token.token_type in (TokenType.FROM, TokenType.JOIN)]  # fmt: skip
    starts = [index for index in places if _name(tokens, index + 1)]
    if all(tokens[index].token_type == TokenType.FROM for index in starts):
        return tokens
    shown, end = list[Token](), 0
    for index in starts:
        first, opening = tokens[index + 1], index + 2
        closing = closed_at.get(opening)
        if closing is None:
            return tokens
        made = [Token(kind, text, first.line, first.col, first.start, first.end, []) for kind, text in _SELECT]
        last = tokens[closing]
        closed = Token(TokenType.R_PAREN, ")", last.line, last.col, last.start, last.end, [])
        shown += [*tokens[end : index + 1], *made, *tokens[index + 1 : closing + 1], closed]
        end = closing + 1
    return [*shown, *tokens[end:]]


def _name(tokens: list[Token], index: int) -> str | None:
    """The windowing function that begins here, with or without TABLE(…) around it."""
    wrapped = [token.token_type for token in tokens[index : index + 2]] == [TokenType.TABLE, TokenType.L_PAREN]
    start = index + 2 * wrapped
    if [token.token_type for token in tokens[start + 1 : start + 2]] != [TokenType.L_PAREN]:
        return None
    name = tokens[start].text.lower()
    return name if name in _FORMS else None


@dataclass(frozen=True)
class _Call:
    """A call of a windowing function. `end` is the place of the first token after it."""

    source: SourceText
    name: Token
    table: list[Token]
    partition: list[Token] | None
    arguments: list[list[Token]]
    """What stands between the commas, without the table."""
    end: int

    @classmethod
    def read(cls, source: SourceText, start: int) -> _Call:
        tokens = source.tokens
        is_wrapped = tokens[start].token_type == TokenType.TABLE
        at = start + 2 if is_wrapped else start
        closing = _closing(source, at + 1)
        given = [_named(each) for each in _split(tokens[at + 2 : closing])]
        table = next((each for each in given if each[0] == "data" or _is_table(each[1])), None)
        if table is None or table[0] not in ("", "data") or not _is_table(table[1]):
            raise _bad(source, tokens[at], "the table is missing", tokens[at])
        rest = [_without_descriptor(source, tokens[at], *each) for each in given if each is not table]
        if is_wrapped and (closing + 1 >= len(tokens) or tokens[closing + 1].token_type != TokenType.R_PAREN):
            raise _bad(source, tokens[at], "TABLE(…) takes one function", tokens[min(closing + 1, len(tokens) - 1)])
        name, partition = _table(source, tokens[at], table[1])
        return cls(source, tokens[at], name, partition, rest, closing + 1 + is_wrapped)

    def window(self) -> WindowSyntax:
        separated = [token for each in self.arguments for token in (Token(TokenType.COMMA, ","), *each)][1:]
        parens = Token(TokenType.L_PAREN, "("), Token(TokenType.R_PAREN, ")")
        call = parse_expression([self.name, parens[0], *separated, parens[1]], self.source.sql)
        assert call is not None
        refuse_unread(self.source, call)
        window = read_window(self.source, call)
        return replace(window, table=TableSyntax(self._partition()))

    def _partition(self) -> tuple[exp.Expr, ...] | None:
        if self.partition is None:
            return None
        if self.name.text.lower() != "session":
            hint = "leave PARTITION BY out, and name the columns in GROUP BY"
            raise self.source.error(
                "OVER_NOT_ALLOWED", f"{self.name.text} does not support PARTITION BY", hint, at=self.partition[0]
            )
        inner = self.partition
        if inner and inner[0].token_type == TokenType.L_PAREN:
            inner = inner[1:-1]
        parsed = [parse_expression(each, self.source.sql) for each in _split(inner)]
        for each in parsed:
            if each is not None:
                refuse_unread(self.source, each)
        return tuple(each for each in parsed if each is not None)


def _closing(source: SourceText, opening: int) -> int:
    for index, depth in enumerate(nesting(source.tokens[opening:])):
        if depth == 0:
            return opening + index
    raise source.error("SYNTAX", "the parenthesis is not closed", "close it", at=source.tokens[opening])


def _split(tokens: list[Token]) -> list[list[Token]]:
    """What stands between commas outside of parentheses."""
    parts: list[list[Token]] = [[]]
    for token, depth in zip(tokens, nesting(tokens), strict=True):
        if depth == 0 and token.token_type == TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _named(argument: list[Token]) -> tuple[str, list[Token]]:
    """An argument's name in lower case, if it has one, and its value."""
    if len(argument) > 1 and argument[1].token_type == TokenType.FARROW:
        return argument[0].text.lower(), argument[2:]
    return "", argument


def _is_table(value: list[Token]) -> bool:
    return len(value) > 1 and value[0].token_type == TokenType.TABLE


def _table(source: SourceText, name: Token, value: list[Token]) -> tuple[list[Token], list[Token] | None]:
    """The name of the table, and what follows PARTITION BY."""
    following = value[2:]
    if not following:
        return value[1:2], None
    if following[0].token_type != TokenType.PARTITION_BY or len(following) == 1:
        raise _bad(source, name, f"unexpected `{following[0].text}`", following[0])
    return value[1:2], following[1:]


def _without_descriptor(source: SourceText, name: Token, parameter: str, value: list[Token]) -> list[Token]:
    """The argument with `ts` for `DESCRIPTOR(ts)`."""
    is_descriptor = [token.text.lower() for token in value[:2]] == ["descriptor", "("]
    if is_descriptor and len(value) > 3:
        value = value[2:-1]
    elif is_descriptor or parameter == "timecol" or not value:
        raise _bad(source, name, "the time must be written as DESCRIPTOR(column)", (value or [name])[0])
    prefix = [Token(TokenType.VAR, parameter), Token(TokenType.FARROW, "=>")] if parameter else []
    return [*prefix, *value]


def _bad(source: SourceText, name: Token, message: str, at: Token) -> SqlError:
    hint = f"write FROM TABLE({_FORMS[name.text.lower()]})"
    return source.error("BAD_TABLE_FUNCTION", f"{name.text}: {message}", hint, at=at)
