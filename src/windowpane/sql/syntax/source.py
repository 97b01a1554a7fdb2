"""The text of a query with its tokens: turns syntax nodes into places in the text, and places into errors."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.errors import Span, SqlError

_DEPTH = {
    TokenType.L_PAREN: 1, TokenType.L_BRACKET: 1, TokenType.L_BRACE: 1,
    TokenType.R_PAREN: -1, TokenType.R_BRACKET: -1, TokenType.R_BRACE: -1,
}  # fmt: skip

PLACEHOLDER = "\0query"
"""What the name of a token begins with that stands for a subquery."""

Place = exp.Expr | Token | Span | None


def token_span(token: Token) -> Span:
    return Span(token.start, token.end + 1)


def nesting(tokens: list[Token]) -> list[int]:
    """How many parentheses are open after each token."""
    return list(accumulate(_DEPTH.get(token.token_type, 0) for token in tokens))


def closings(tokens: list[Token]) -> dict[int, int]:
    """For each parenthesis that opens and closes, the places of both."""
    found, opened = dict[int, int](), list[int]()
    for index, token in enumerate(tokens):
        change = _DEPTH.get(token.token_type, 0)
        if change > 0:
            opened.append(index)
        elif change < 0 and opened:
            found[opened.pop()] = index
    return found


@dataclass(frozen=True)
class SourceText:
    """A query's text. Spans are offsets into it."""

    sql: str
    tokens: list[Token]

    def span(self, place: Place) -> Span | None:
        """The text a node was read from, closing parentheses included; None when the node has no place."""
        if place is None or isinstance(place, Span):
            return place
        if isinstance(place, Token):
            return token_span(place)
        marks = [node.meta for node in place.walk() if node._meta and "start" in node._meta]
        if not marks:
            return None
        end = self._with_unit(place, max(mark["end"] for mark in marks) + 1)
        return self._balanced(min(mark["start"] for mark in marks), end)

    def quote(self, place: Place) -> str:
        """The user's text at a place, shortened."""
        span = self.span(place)
        text = " ".join(self.sql[span.start : span.end].split()) if span else ""
        return text if len(text) <= 60 else f"{text[:57]}..."

    def error(self, code: str, message: str, hint: str | None = None, at: Place = None) -> SqlError:
        return SqlError(code, message, hint, sql=self.sql, span=self.span(at) or Span(0, 0))

    @cached_property
    def _starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def _with_unit(self, place: exp.Expr, end: int) -> int:
        """The end of a node, with the unit of the interval that it ends with: the unit has no place in the tree."""
        for interval in place.find_all(exp.Interval):
            after = bisect_left(self._starts, end)
            word = self.tokens[after].text.upper() if after < len(self.tokens) else ""
            ends_there = any(node._meta and node._meta.get("end") == end - 1 for node in interval.walk())
            unit = str(interval.args.get("unit")).upper()
            if ends_there and word.removesuffix("S") == unit.removesuffix("S"):
                return self.tokens[after].end + 1
        return end

    def _balanced(self, start: int, end: int) -> Span:
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        open_parens = sum(_DEPTH.get(token.token_type, 0) for token in self.tokens[first:last])
        while open_parens > 0 and last < len(self.tokens):
            open_parens += _DEPTH.get(self.tokens[last].token_type, 0)
            end = self.tokens[last].end + 1
            last += 1
        return Span(start, end)
