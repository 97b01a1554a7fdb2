"""Reads the contents of our clauses: `TUMBLING (SIZE …) ON ts`, `WATERMARK (LAG …)`, `EMIT EVERY …`."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.core.windows import KINDS, BadWindow, WindowSpec
from windowpane.errors import Span, nearest
from windowpane.sql.query import Emit, Watermark
from windowpane.sql.syntax.clause_parts import Form, Read, nothing_left, parenthesised, positive, read_parts
from windowpane.sql.syntax.dialect import parse_expression
from windowpane.sql.syntax.intervals import read_interval
from windowpane.sql.syntax.refusals import refuse_unread
from windowpane.sql.syntax.source import SourceText, nesting
from windowpane.sql.syntax.statement import WindowSyntax
from windowpane.sql.syntax.window_functions import over

WATERMARK_FORM = "WATERMARK (LAG 5 SECONDS[, ALLOWED LATENESS 1 MINUTE])"
EMIT_FORMS = "EMIT ON WINDOW CLOSE, EMIT ON UPDATE or EMIT EVERY 10 SECONDS"


_LAG = ("LAG", "ALLOWED LATENESS")
_WATERMARK = Form("WATERMARK", WATERMARK_FORM, (), _LAG, zero=_LAG)


def _clause_kinds() -> dict[str, type[WindowSpec]]:
    """The windows of the clause by their names there."""
    return {name.upper(): kind for name, kind in KINDS.items() if kind.parts}


def read_window_clause(source: SourceText, tokens: list[Token]) -> WindowSyntax:
    """`WINDOW kind (…) [OVER (…)] [ON expr]`."""
    name, kinds = tokens[1].text.upper(), _clause_kinds()
    span = Span(tokens[0].start, tokens[-1].end + 1)
    if tokens[2:] and tokens[2].token_type == TokenType.ALIAS:
        if [token.text.upper() in kinds for token in tokens[4:5]] == [True]:
            return _named_window(source, tokens)
        hint = f"a window is one of: {'; '.join(kind.clause_form() for kind in kinds.values())}"
        raise source.error(
            "UNSUPPORTED_SYNTAX", "a window with a name needs parentheses: WINDOW w AS (…)", hint, at=tokens[1]
        )
    if name not in kinds:
        hint = f"kinds are: {nearest(name, kinds)}; count and state windows are functions in GROUP BY"
        raise source.error("UNKNOWN_WINDOW", f"unknown window `{tokens[1].text}`", hint, at=tokens[1])
    form = Form.of(kinds[name])
    inner, rest = parenthesised(source, tokens[2:], form.text)
    spec = _built(source, kinds[name], read_parts(source, inner, tokens[1], form))
    return _with_over_and_on(source, WindowSyntax(spec, name, span), rest)


def _named_window(source: SourceText, tokens: list[Token]) -> WindowSyntax:
    """`WINDOW name AS (kind (…) [ON expr])`."""
    inner, rest = parenthesised(source, tokens[3:], "WINDOW w AS (TUMBLING (SIZE 10 SECONDS))")
    nothing_left(source, rest, "WINDOW w AS (TUMBLING (SIZE 10 SECONDS))")
    return replace(read_window_clause(source, [tokens[0], *inner]), name=tokens[1])


def read_watermark(source: SourceText, tokens: list[Token]) -> Watermark:
    """`WATERMARK (LAG …[, ALLOWED LATENESS …])`, in either order."""
    inner, rest = parenthesised(source, tokens[1:], WATERMARK_FORM)
    nothing_left(source, rest, WATERMARK_FORM)
    parts = read_parts(source, inner, tokens[0], _WATERMARK)
    lag_us, lateness_us = (_duration(parts.get(name)) for name in _LAG)
    return Watermark(lag_us, lateness_us, Span(tokens[0].start, tokens[-1].end + 1))


def _duration(part: Read | None) -> int | None:
    return part.value if part is not None and isinstance(part.value, int) else None


def read_emit(source: SourceText, tokens: list[Token]) -> Emit:
    """`EMIT ON WINDOW CLOSE | ON UPDATE | EVERY interval`; ksqlDB's `EMIT FINAL` is the first."""
    words = [token.text.upper() for token in tokens[1:]]
    span = Span(tokens[0].start, tokens[-1].end + 1)
    if words in (["ON", "WINDOW", "CLOSE"], ["FINAL"]):
        return Emit("close", span=span)
    if words == ["ON", "UPDATE"]:
        return Emit("update", span=span)
    if words[:1] == ["EVERY"]:
        us = read_interval(source, tokens[2:], "EMIT EVERY", tokens[1])
        return Emit("every", positive(source, us, "EMIT EVERY", tokens[2:]), span)
    hint = "EMIT CHANGES is EMIT ON UPDATE here" if words == ["CHANGES"] else f"write {EMIT_FORMS}"
    raise source.error("BAD_EMIT", f"`{source.quote(span)}` is not a valid EMIT clause", hint, at=span)


def _built(source: SourceText, kind: type[WindowSpec], parts: dict[str, Read]) -> WindowSpec:
    try:
        return kind.build({name: part.value for name, part in parts.items()})
    except BadWindow as bad:
        raise source.error(bad.code, bad.message, bad.hint, at=parts[bad.part].span) from None


def _with_over_and_on(source: SourceText, window: WindowSyntax, rest: list[Token]) -> WindowSyntax:
    if rest and rest[0].token_type == TokenType.OVER:
        _, after = parenthesised(source, rest[1:], "OVER (PARTITION BY k)")
        if not window.spec.partitioned:
            hint = "remove OVER and put the columns into GROUP BY"
            raise source.error("OVER_NOT_ALLOWED", f"{window.spelling} does not support OVER", hint, at=rest[0])
        window, rest = over(source, window, _parse_over(source, rest[: len(rest) - len(after)])), after
    if not rest:
        return window
    if rest[0].token_type != TokenType.ON:
        nothing_left(source, rest, f"{window.spec.clause_form()} ON ts")
    if len(rest) == 1:
        raise source.error("SYNTAX", "ON needs an expression", "write ON ts", at=rest[0])
    _only_one_on(source, rest)
    expression = parse_expression(rest[1:], source.sql)
    if expression is not None:
        refuse_unread(source, expression)
    return replace(window, on=expression)


def _only_one_on(source: SourceText, tokens: list[Token]) -> None:
    depth = nesting(tokens)
    for index, token in enumerate(tokens[1:], 1):
        if token.token_type == TokenType.ON and depth[index] == 0:
            raise source.error("DUPLICATE_CLAUSE", "a second ON", "a window has one event time", at=token)


def _parse_over(source: SourceText, tokens: list[Token]) -> exp.Window:
    """Parses OVER behind a function, because OVER alone is not an expression."""
    name = Token(TokenType.VAR, "w", start=tokens[0].start, end=tokens[0].end)
    parens = [Token(TokenType.L_PAREN, "("), Token(TokenType.R_PAREN, ")")]
    parsed = parse_expression([name, *parens, *tokens], source.sql)
    assert isinstance(parsed, exp.Window)
    refuse_unread(source, parsed)
    return parsed
