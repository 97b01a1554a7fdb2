"""The dialect: Spark's syntax with functions left as they are written, so that what Spark gets is what the user wrote.

sqlglot would turn many functions into neutral nodes and write them back differently; names that pass through need none
of that, and unknown ones (UDFs) are treated like the rest.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

Node = TypeVar("Node", bound=exp.Expr)

_OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION")
_CHILDLESS = (exp.Null, exp.Boolean, exp.Star, exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentUser)


class QuerySyntaxError(ParseError):
    """A syntax error at a token. sqlglot's own would carry a text with ANSI codes, and be slow to build."""

    def __init__(self, message: str, token: Token | None) -> None:
        super().__init__(message, [{"description": message}])
        self.token = token


class When(exp.Expression):
    """The condition of `OVER (… WHEN condition)`. Rides in the slot of ORDER BY, which our windows do not take."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class WindowpaneParser(SparkParser):
    """Spark's parser without sqlglot's function table, with positions on all leaves and `OVER (… WHEN cond)`."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: SparkParser.FUNCTION_PARSERS[name] for name in _OWN_SYNTAX}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }
    FUNC_TOKENS: ClassVar[Any] = SparkParser.FUNC_TOKENS | {TokenType.WINDOW, TokenType.SESSION}
    # A join without a condition must stay visible as one: it is refused, not completed.
    ADD_JOIN_ON_TRUE: ClassVar[bool] = False

    def raise_error(self, message: str, token: Token | None = None) -> None:
        fault = QuerySyntaxError(message, token or self._curr or None)
        if self.error_level == ErrorLevel.IMMEDIATE:
            raise fault
        self.errors.append(fault)

    def expression(self, instance: Node, token: Token | None = None, comments: list[str] | None = None) -> Node:
        if token is None and isinstance(instance, _CHILDLESS) and self._prev:
            token = self._prev
        return super().expression(instance, token, comments)

    def _parse_partition_and_order(self) -> tuple[list[exp.Expr], exp.Expr | None]:
        partition, order = super()._parse_partition_and_order()
        if order is None and self._match(TokenType.WHEN):
            order = When(this=self._parse_disjunction())
        return partition, order


class Windowpane(Spark):
    """Spark's tokens and generator with the parser above."""

    class Tokenizer(Spark.Tokenizer):
        # Since Spark 4.0 a doubled quote is one quote, and no longer the seam of two strings.
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    Parser = WindowpaneParser


DIALECT = Windowpane()


def tokenize(sql: str) -> list[Token]:
    """Tokens with their positions in `sql`; sqlglot's TokenError for text that has no tokens."""
    return DIALECT.tokenize(sql)


def parse_tokens(tokens: list[Token], sql: str) -> exp.Expr | None:
    """One statement."""
    return DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql)[0]


def parse_expression(tokens: list[Token], sql: str) -> exp.Expr | None:
    """One scalar expression."""
    parser = DIALECT.parser(error_level=ErrorLevel.IMMEDIATE)
    return parser._parse(WindowpaneParser._parse_disjunction, tokens, sql)[0]


def render(node: exp.Expr) -> str:
    """Canonical Spark SQL: one line, no comments, function names in lower case."""
    return DIALECT.generate(node, copy=False, comments=False, normalize_functions="lower")
