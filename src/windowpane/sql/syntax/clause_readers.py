"""Reads the contents of our clauses: `TUMBLING (SIZE …) ON ts`, `WATERMARK (LAG …)`, `EMIT EVERY …`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.core.windows import KINDS, BadWindow, PartValue, WindowSpec
from windowpane.errors import Span, SqlError, nearest
from windowpane.sql.query import Emit, Watermark
from windowpane.sql.syntax.dialect import parse_expression
from windowpane.sql.syntax.intervals import EXAMPLES, read_calendar, read_interval
from windowpane.sql.syntax.refusals import refuse_unread
from windowpane.sql.syntax.source import SourceText, nesting
from windowpane.sql.syntax.statement import WindowSyntax
from windowpane.sql.syntax.window_functions import over

WATERMARK_FORM = "WATERMARK (LAG 5 SECONDS[, ALLOWED LATENESS 1 MINUTE])"
EMIT_FORMS = "EMIT ON WINDOW CLOSE, EMIT ON UPDATE or EMIT EVERY 10 SECONDS"


@dataclass(frozen=True)
class _Form:
    """Reads the contents of a clause's parentheses."""

    owner: str
    text: str
    required: tuple[str, ...]
    allowed: tuple[str, ...]
    zero: tuple[str, ...] = ()
    """Parts that may be zero."""
    signed: tuple[str, ...] = ()
    """Parts that may be negative."""
    calendar: tuple[str, ...] = ()
    """Parts that may be in days or months of the calendar."""
    zones: tuple[str, ...] = ()
    """Parts that are names of time zones."""

    @classmethod
    def of(cls, kind: type[WindowSpec]) -> _Form:
        parts = kind.parts
        return cls(
            kind.kind.upper(),
            kind.clause_form(),
            required=kind.required(),
            allowed=tuple(part.name for part in parts),
            zero=tuple(part.name for part in parts if part.zero),
            signed=tuple(part.name for part in parts if part.signed),
            calendar=tuple(part.name for part in parts if part.takes == "calendar"),
            zones=tuple(part.name for part in parts if part.takes == "zone"),
        )


_LAG = ("LAG", "ALLOWED LATENESS")
_WATERMARK = _Form("WATERMARK", WATERMARK_FORM, (), _LAG, zero=_LAG)
_SYNONYMS = {"ADVANCE BY": "SLIDE", "ADVANCE": "SLIDE"}


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
        raise source.error("UNSUPPORTED_SYNTAX", "named windows (WINDOW w AS …) are not supported", hint, at=tokens[1])
    if name not in kinds:
        hint = f"kinds are: {nearest(name, kinds)}; count and state windows are functions in GROUP BY"
        raise source.error("UNKNOWN_WINDOW", f"unknown window `{tokens[1].text}`", hint, at=tokens[1])
    form = _Form.of(kinds[name])
    inner, rest = _parenthesised(source, tokens[2:], form.text)
    spec = _built(source, kinds[name], _read_parts(source, inner, tokens[1], form))
    return _with_over_and_on(source, WindowSyntax(spec, name, span), rest)


def _named_window(source: SourceText, tokens: list[Token]) -> WindowSyntax:
    """`WINDOW name AS (kind (…) [ON expr])`."""
    inner, rest = _parenthesised(source, tokens[3:], "WINDOW w AS (TUMBLING (SIZE 10 SECONDS))")
    _nothing_left(source, rest, "WINDOW w AS (TUMBLING (SIZE 10 SECONDS))")
    return replace(read_window_clause(source, [tokens[0], *inner]), name=tokens[1])


def read_watermark(source: SourceText, tokens: list[Token]) -> Watermark:
    """`WATERMARK (LAG …[, ALLOWED LATENESS …])`, in either order."""
    inner, rest = _parenthesised(source, tokens[1:], WATERMARK_FORM)
    _nothing_left(source, rest, WATERMARK_FORM)
    parts = _read_parts(source, inner, tokens[0], _WATERMARK)
    lag_us, lateness_us = (_duration(parts.get(name)) for name in _LAG)
    return Watermark(lag_us, lateness_us, Span(tokens[0].start, tokens[-1].end + 1))


def _duration(part: _Read | None) -> int | None:
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
        return Emit("every", _positive(source, us, "EMIT EVERY", tokens[2:]), span)
    hint = "EMIT CHANGES is EMIT ON UPDATE here" if words == ["CHANGES"] else f"write {EMIT_FORMS}"
    raise source.error("BAD_EMIT", f"`{source.quote(span)}` is not a valid EMIT clause", hint, at=span)


def _built(source: SourceText, kind: type[WindowSpec], parts: dict[str, _Read]) -> WindowSpec:
    try:
        return kind.build({name: part.value for name, part in parts.items()})
    except BadWindow as bad:
        raise source.error(bad.code, bad.message, bad.hint, at=parts[bad.part].span) from None


def _with_over_and_on(source: SourceText, window: WindowSyntax, rest: list[Token]) -> WindowSyntax:
    if rest and rest[0].token_type == TokenType.OVER:
        _, after = _parenthesised(source, rest[1:], "OVER (PARTITION BY k)")
        if not window.spec.partitioned:
            hint = "remove OVER and put the columns into GROUP BY"
            raise source.error("OVER_NOT_ALLOWED", f"{window.spelling} does not support OVER", hint, at=rest[0])
        window, rest = over(source, window, _parse_over(source, rest[: len(rest) - len(after)])), after
    if not rest:
        return window
    if rest[0].token_type != TokenType.ON:
        _nothing_left(source, rest, f"{window.spec.clause_form()} ON ts")
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


def _parenthesised(source: SourceText, tokens: list[Token], form: str) -> tuple[list[Token], list[Token]]:
    """The tokens inside the parentheses that open here, and those after them."""
    if not tokens or tokens[0].token_type != TokenType.L_PAREN:
        raise source.error("SYNTAX", "a parenthesis is missing", f"write {form}", at=(tokens or source.tokens[-1:])[0])
    closing = next((index for index, depth in enumerate(nesting(tokens)) if depth == 0), None)
    if closing is None:
        raise source.error("SYNTAX", "the parenthesis is not closed", f"write {form}", at=tokens[0])
    return tokens[1:closing], tokens[closing + 1 :]


def _nothing_left(source: SourceText, tokens: list[Token], form: str) -> None:
    if tokens:
        raise source.error("SYNTAX", f"unexpected `{tokens[0].text}`", f"write {form}", at=tokens[0])


@dataclass(frozen=True)
class _Part:
    name: str
    word: Token
    value: list[Token]


@dataclass(frozen=True)
class _Read:
    """A part's value, and its place in the text."""

    value: PartValue
    span: Span


def _read_parts(source: SourceText, tokens: list[Token], owner: Token, form: _Form) -> dict[str, _Read]:
    """`NAME interval, …` by name."""
    found: dict[str, _Read] = {}
    for part in _split_parts(source, tokens, owner, form.text):
        if part.name not in form.allowed:
            hint = f"it takes {nearest(part.name, form.allowed)}: {form.text}"
            raise source.error("UNKNOWN_OPTION", f"{form.owner} has no `{part.word.text}`", hint, at=part.word)
        if part.name in found:
            raise source.error("DUPLICATE_CLAUSE", f"a second {part.name}", f"write {form.text}", at=part.word)
        found[part.name] = _Read(_value(source, part, form), Span(part.word.start, part.value[-1].end + 1))
    missing = [name for name in form.required if name not in found]
    if missing or not found:
        lacks = " and ".join(missing) or "LAG or ALLOWED LATENESS"
        raise source.error("MISSING_OPTION", f"{form.owner} needs {lacks}", f"write {form.text}", at=owner)
    return found


def _value(source: SourceText, part: _Part, form: _Form) -> PartValue:
    if part.name in form.zones:
        return _zone(source, part)
    span = read_calendar(part.value) if part.name in form.calendar else None
    if span is None:
        return _checked(source, read_interval(source, part.value, part.name, part.word), part, form)
    _checked(source, span.count, part, form)
    return span


def _zone(source: SourceText, part: _Part) -> str:
    if len(part.value) != 1 or part.value[0].token_type != TokenType.STRING:
        at = part.value[0] if part.value else part.word
        message = f"{part.name} must be the quoted name of a time zone"
        raise source.error("NOT_A_STRING", message, "write TIME ZONE 'Europe/Berlin'", at=at)
    return part.value[0].text


def _split_parts(source: SourceText, tokens: list[Token], owner: Token, form: str) -> list[_Part]:
    groups: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.COMMA:
            groups.append([])
        else:
            groups[-1].append(token)
    if len(groups) > 1 and not all(groups):
        raise source.error("SYNTAX", "something is missing next to a comma", f"write {form}", at=owner)
    return [_part(group) for group in groups if group]


def _part(tokens: list[Token]) -> _Part:
    two = " ".join(token.text.upper() for token in tokens[:2])
    words = 2 if two in ("ALLOWED LATENESS", "ADVANCE BY", "TIME ZONE") else 1
    name = two if words == 2 else tokens[0].text.upper()
    if len(tokens) > words and tokens[words].token_type in (TokenType.FARROW, TokenType.EQ):
        return _Part(_SYNONYMS.get(name, name), tokens[0], tokens[words + 1 :])
    return _Part(_SYNONYMS.get(name, name), tokens[0], tokens[words:])


def _checked(source: SourceText, us: int, part: _Part, form: _Form) -> int:
    if part.name in form.signed or (us == 0 and part.name in form.zero):
        return us
    return _positive(source, us, part.name, part.value)


def _positive(source: SourceText, us: int, what: str, tokens: list[Token]) -> int:
    span = Span(tokens[0].start, tokens[-1].end + 1)
    if us < 0:
        raise _refuse(source, "NEGATIVE_ARGUMENT", f"{what} must not be negative", span)
    if us == 0:
        raise _refuse(source, "ZERO_ARGUMENT", f"{what} must not be zero", span)
    return us


def _refuse(source: SourceText, code: str, message: str, span: Span) -> SqlError:
    return source.error(code, message, f"write it like {EXAMPLES}", at=span)
