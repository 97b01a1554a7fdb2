"""What stands in the parentheses of our clauses: `SIZE 10 SECONDS, OFFSET 1 SECOND`, parts with their values."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from windowpane.core.windows import PartValue, WindowSpec
from windowpane.errors import Span, SqlError, nearest
from windowpane.sql.syntax.intervals import EXAMPLES, read_calendar, read_interval
from windowpane.sql.syntax.source import SourceText, nesting

_SYNONYMS = {"ADVANCE BY": "SLIDE", "ADVANCE": "SLIDE"}


@dataclass(frozen=True)
class Form:
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
    def of(cls, kind: type[WindowSpec]) -> Form:
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


def parenthesised(source: SourceText, tokens: list[Token], form: str) -> tuple[list[Token], list[Token]]:
    """The tokens inside the parentheses that open here, and those after them."""
    if not tokens or tokens[0].token_type != TokenType.L_PAREN:
        raise source.error("SYNTAX", "a parenthesis is missing", f"write {form}", at=(tokens or source.tokens[-1:])[0])
    closing = next((index for index, depth in enumerate(nesting(tokens)) if depth == 0), None)
    if closing is None:
        raise source.error("SYNTAX", "the parenthesis is not closed", f"write {form}", at=tokens[0])
    return tokens[1:closing], tokens[closing + 1 :]


def nothing_left(source: SourceText, tokens: list[Token], form: str) -> None:
    """Refuse what follows a clause."""
    if tokens:
        raise source.error("SYNTAX", f"unexpected `{tokens[0].text}`", f"write {form}", at=tokens[0])


@dataclass(frozen=True)
class _Part:
    name: str
    word: Token
    value: list[Token]


@dataclass(frozen=True)
class Read:
    """A part's value, and its place in the text."""

    value: PartValue
    span: Span


def read_parts(source: SourceText, tokens: list[Token], owner: Token, form: Form) -> dict[str, Read]:
    """`NAME interval, …` by name."""
    found: dict[str, Read] = {}
    for part in _split_parts(source, tokens, owner, form.text):
        if part.name not in form.allowed:
            hint = f"it takes {nearest(part.name, form.allowed)}: {form.text}"
            raise source.error("UNKNOWN_OPTION", f"{form.owner} has no `{part.word.text}`", hint, at=part.word)
        if part.name in found:
            raise source.error("DUPLICATE_CLAUSE", f"a second {part.name}", f"write {form.text}", at=part.word)
        found[part.name] = Read(_value(source, part, form), Span(part.word.start, part.value[-1].end + 1))
    missing = [name for name in form.required if name not in found]
    if missing or not found:
        lacks = " and ".join(missing) or "LAG or ALLOWED LATENESS"
        raise source.error("MISSING_OPTION", f"{form.owner} needs {lacks}", f"write {form.text}", at=owner)
    return found


def _value(source: SourceText, part: _Part, form: Form) -> PartValue:
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


def _checked(source: SourceText, us: int, part: _Part, form: Form) -> int:
    if part.name in form.signed or (us == 0 and part.name in form.zero):
        return us
    return positive(source, us, part.name, part.value)


def positive(source: SourceText, us: int, what: str, tokens: list[Token]) -> int:
    """A duration that must not be zero or negative."""
    span = Span(tokens[0].start, tokens[-1].end + 1)
    if us < 0:
        raise _refuse(source, "NEGATIVE_ARGUMENT", f"{what} must not be negative", span)
    if us == 0:
        raise _refuse(source, "ZERO_ARGUMENT", f"{what} must not be zero", span)
    return us


def _refuse(source: SourceText, code: str, message: str, span: Span) -> SqlError:
    return source.error(code, message, f"write it like {EXAMPLES}", at=span)
