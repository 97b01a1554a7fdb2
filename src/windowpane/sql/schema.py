"""Schemas: what columns a stream or table has, from Spark's DDL text, and what a query can name (the catalog)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.errors import Span, SqlError, nearest
from windowpane.sql.query import Column
from windowpane.sql.syntax.dialect import tokenize
from windowpane.sql.syntax.source import token_span
from windowpane.sql.types import SPELLINGS, decimal, quoted

Schema: TypeAlias = tuple[Column, ...] | None
"""Columns, or None where only Spark knows them (parquet, delta …): names are then not checked."""


@dataclass(frozen=True)
class Catalog:
    """What FROM can name. Names are matched as written, else in any letter case."""

    streams: Mapping[str, Schema] = field(default_factory=dict)
    tables: Mapping[str, Schema] = field(default_factory=dict)
    has_function: Callable[[str], bool] = lambda _: False
    """Whether the user has registered a function of this name (lower case) with Spark."""
    queries: Mapping[str, str] = field(default_factory=dict)
    """The texts of the pipeline's transforms, which can be read by name as well."""


def columns_of(pairs: Iterable[tuple[str, str]]) -> tuple[Column, ...]:
    """Columns by name and type."""
    return tuple(Column(name, kind) for name, kind in pairs)


def with_record_columns(declared: tuple[Column, ...], pairs: Iterable[tuple[str, str]]) -> tuple[Column, ...]:
    """The columns of a decoded value, then the record's, which `*` skips and a declared column of that name hides."""
    taken = {column.name.lower() for column in declared}
    return (*declared, *(Column(name, kind, hidden=True) for name, kind in pairs if name not in taken))


_HINT = "write it like `auction BIGINT, price DECIMAL(10,2), tags ARRAY<STRING>, ts TIMESTAMP`"
_MAX_DEPTH = 50


def parse_schema(ddl: str) -> tuple[Column, ...]:
    """Columns of a Spark DDL schema; SqlError BAD_SCHEMA with the place otherwise.

    >>> parse_schema("a BIGINT, `@timestamp` timestamp, b: array<string>")[2]
    Column(name='b', type='ARRAY<STRING>')
    """
    try:
        tokens = tokenize(ddl)
    except SqlglotError:
        raise _bad(ddl, "the schema has a quote that is not closed", Span(0, len(ddl))) from None
    reader = _SchemaReader(ddl, tokens)
    columns = reader.columns(end=None)
    return tuple(columns)


def _bad(ddl: str, message: str, span: Span | None, hint: str = _HINT) -> SqlError:
    return SqlError("BAD_SCHEMA", message, hint, sql=ddl, span=span)


class _SchemaReader:
    """Reads `name[:] type [NOT NULL] [COMMENT '…'], …` from tokens."""

    def __init__(self, ddl: str, tokens: list[Token]) -> None:
        self.ddl, self.tokens, self.position, self.depth = ddl, tokens, 0, 0

    def columns(self, end: TokenType | None) -> list[Column]:
        """Columns up to `end` (the `>` of a STRUCT), or to the end of the text."""
        found: dict[str, Column] = {}
        while True:
            at = self.span()
            column = self.column()
            if column.name.lower() in found:
                raise _bad(self.ddl, f"column `{column.name}` occurs twice", at)
            found[column.name.lower()] = column
            if end is None and self.position == len(self.tokens):
                return list(found.values())
            if end is not None and self.accept(end):
                return list(found.values())
            self.expect(TokenType.COMMA, ",")

    def column(self) -> Column:
        token = self.next("a column name")
        named = token.token_type == TokenType.IDENTIFIER or token.text.replace("_", "a").isalnum()
        if not named or token.token_type in (TokenType.STRING, TokenType.NUMBER):
            raise _bad(self.ddl, f"`{token.text}` is not a column name", token_span(token), _name_hint(token))
        self.accept(TokenType.COLON)
        if self.position == len(self.tokens) or self.tokens[self.position].token_type == TokenType.COMMA:
            raise _bad(self.ddl, f"column `{token.text}` has no type", token_span(token))
        column = Column(token.text, self.type())
        self.constraints()
        return column

    def constraints(self) -> None:
        """Neither `NOT NULL` nor `COMMENT '…'` changes what a query may do."""
        if self.accept(TokenType.NOT):
            self.expect(TokenType.NULL, "NULL")
        if self.accept(TokenType.COMMENT):
            self.expect(TokenType.STRING, "a quoted comment")

    def type(self) -> str:
        token = self.next("a type")
        kind = SPELLINGS.get(token.text.upper())
        if kind is None:
            hint = f"types are: {nearest(token.text, set(SPELLINGS.values()))}"
            raise _bad(self.ddl, f"`{token.text}` is not a Spark type", token_span(token), hint)
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _bad(self.ddl, "the type is nested too deeply", token_span(token))
        name = self.sized(kind, token) if kind in ("DECIMAL", "STRING") else self.nested(kind)
        self.depth -= 1
        return name

    def sized(self, kind: str, token: Token) -> str:
        numbers: list[int] = []
        if self.accept(TokenType.L_PAREN):
            numbers.append(self.number())
            while self.accept(TokenType.COMMA):
                numbers.append(self.number())
            self.expect(TokenType.R_PAREN, ")")
        if kind == "STRING":
            return kind
        name = decimal(*numbers or [10]) if len(numbers) <= 2 else None
        if name is None:
            raise _bad(
                self.ddl,
                "a DECIMAL has at most 38 digits, and its scale cannot exceed its precision",
                token_span(token),
            )
        return name

    def nested(self, kind: str) -> str:
        if kind not in ("ARRAY", "MAP", "STRUCT"):
            return kind
        self.expect(TokenType.LT, f"`<` after {kind}")
        if kind == "STRUCT":
            fields = self.columns(end=TokenType.GT)
            return f"STRUCT<{','.join(f'{quoted(column.name)}:{column.type}' for column in fields)}>"
        parts = [self.type()]
        if kind == "MAP":
            self.expect(TokenType.COMMA, ",")
            parts.append(self.type())
        self.expect(TokenType.GT, ">")
        return f"{kind}<{','.join(parts)}>"

    def number(self) -> int:
        token = self.next("a number")
        if not token.text.isdigit() or len(token.text) > 4:
            raise _bad(self.ddl, f"`{token.text}` is not a number of digits", token_span(token))
        return int(token.text)

    def next(self, what: str) -> Token:
        if self.position == len(self.tokens):
            raise _bad(self.ddl, f"the schema ends where {what} is expected", self.span())
        self.position += 1
        return self.tokens[self.position - 1]

    def accept(self, kind: TokenType) -> bool:
        found = self.position < len(self.tokens) and self.tokens[self.position].token_type == kind
        self.position += found
        return found

    def expect(self, kind: TokenType, what: str) -> None:
        if not self.accept(kind):
            found = f"`{self.tokens[self.position].text}`" if self.position < len(self.tokens) else "the end"
            raise _bad(self.ddl, f"expected {what}, found {found}", self.span())

    def span(self) -> Span:
        if self.position < len(self.tokens):
            return token_span(self.tokens[self.position])
        return Span(len(self.ddl), len(self.ddl))


def _name_hint(token: Token) -> str:
    return f"{_HINT}; put a name with other characters in backticks" if token.text else _HINT


def lookup(name: str, known: Mapping[str, Schema]) -> str | None:
    """The catalog's spelling of a name: as written, else the only one in any letter case."""
    if name in known:
        return name
    folded = [candidate for candidate in known if candidate.lower() == name.lower()]
    return folded[0] if len(folded) == 1 else None
