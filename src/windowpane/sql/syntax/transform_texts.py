"""The texts of transforms that a query reads by name. They follow the query's own text, so that a span names one place.

A place within the query itself is the same with and without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token

from windowpane.errors import Span, SqlError


@dataclass(frozen=True)
class TransformText:
    """The text of a transform, its tokens, and where it begins in the whole text. The query itself has no name."""

    name: str
    sql: str
    tokens: list[Token]
    start: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.sql)


def gather_texts(
    sql: str, queries: Mapping[str, str], tokenize: Callable[[str], list[Token]]
) -> tuple[TransformText, ...]:
    """The query, then the transforms whose names occur in it or in each other.

    A name may turn out to be that of a column: its text is then there, and nothing reads it.
    """
    found = [TransformText("", sql, tokenize(sql))]
    for text in found:  # grows
        words = {token.text.lower() for token in text.tokens}
        taken = {each.name for each in found}
        for name in queries:
            if name not in taken and name.lower() in words:
                start = found[-1].end + 1
                found.append(TransformText(name, queries[name], _moved(tokenize(queries[name]), start), start))
    return tuple(found)


def whole_text(texts: Sequence[TransformText]) -> str:
    return "\n".join(each.sql for each in texts)


def _moved(tokens: Sequence[Token], by: int) -> list[Token]:
    return [Token(each.token_type, each.text, each.line, each.col, each.start + by, each.end + by) for each in tokens]


def place_in_text(error: SqlError, texts: Sequence[TransformText]) -> str:
    """Put an error at its place in the text that it belongs to, and give the name of that transform."""
    if len(texts) == 1 or error.sql != whole_text(texts):
        return ""
    at = error.span or Span(0, 0)
    found = next(each for each in texts if at.start <= each.end)
    error.sql = found.sql
    error.span = Span(at.start - found.start, min(at.end, found.end) - found.start) if error.span else None
    return found.name
