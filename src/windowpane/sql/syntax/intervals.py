"""Durations in SQL, in all spellings: `10 SECONDS`, `INTERVAL '10' SECOND`, `INTERVAL 1 MINUTE 30 SECONDS`, `'10s'`."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from windowpane.core.windows import CalendarSpan
from windowpane.errors import Span, SqlError
from windowpane.sql.syntax.source import SourceText, token_span
from windowpane.time import MAX_US, unit_to_us

EXAMPLES = "10 SECONDS, INTERVAL '10' SECOND, INTERVAL 10 SECONDS or '10s'"
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")
_CALENDAR = ("month", "months", "year", "years", "quarter", "quarters")


def text_to_us(text: str) -> int | None:
    """Microseconds of `10s`, `1 minute 30 seconds`, `1.5 hours`; None when it is no duration or not whole.

    >>> text_to_us("1 minute 30 seconds"), text_to_us("0.5 ms"), text_to_us("10"), text_to_us("1 month")
    (90000000, 500, None, None)
    """
    total, position = Decimal(0), 0
    for match in _PART.finditer(text):
        part = part_to_us(match[1], match[2])
        if match.start() != position or part is None:
            return None
        total, position = total + part, match.end()
    return int(total) if position == len(text) and text.strip() else None


def part_to_us(number: str, unit: str) -> int | None:
    """Microseconds of a number and its unit; None when the unit is unknown or the result not a whole number."""
    factor = unit_to_us(unit)
    try:
        exact = Decimal(number.strip()) * (factor or 0)
    except InvalidOperation:
        return None
    return int(exact) if factor and exact == exact.to_integral_value() else None


def span_to_us(text: str, first: str, last: str) -> int | None:
    """Microseconds of `INTERVAL '1 02:30' DAY TO MINUTE`: the number of each unit from the first to the last one.

    >>> span_to_us("0:30", "minute", "SECOND"), span_to_us("-1 02:30", "DAY", "MINUTE"), span_to_us("1", "HOUR", "DAY")
    (30000000, -95400000000, None)
    """
    units, (first, last) = [*_UNITS], (first.upper().rstrip("S"), last.upper().rstrip("S"))
    if first not in units or last not in units:
        return None
    named, stripped = units[units.index(first) : units.index(last) + 1], text.strip()
    numbers = re.split(r"[ :]", stripped.lstrip("+-"))
    parts = [part_to_us(number, unit) for number, unit in zip(numbers, named, strict=False)]
    if len(numbers) != len(named) or None in parts:
        return None
    total = sum(part for part in parts if part is not None)
    return -total if stripped.startswith("-") else total


def read_interval(source: SourceText, tokens: list[Token], what: str, after: Token) -> int:
    """Microseconds of a duration written in `tokens`. `after` is where to point when there are none."""
    rest = tokens[1:] if tokens and tokens[0].token_type == TokenType.INTERVAL else tokens
    if not rest:
        raise bad_interval(source, f"{what} needs a duration", token_span((tokens or [after])[0]))
    span, total = Span(tokens[0].start, tokens[-1].end + 1), 0
    while rest:
        value, used = _read_part(rest)
        if value is None:
            raise _explain(source, rest, what, span)
        total, rest = total + value, rest[used:]
    if total > MAX_US:
        raise bad_interval(source, f"{what} is longer than 292,000 years", span)
    return total


def _read_part(tokens: list[Token]) -> tuple[int | None, int]:
    """One number with its unit from the front of `tokens`: microseconds and how many tokens it took."""
    sign, used = "", 0
    if tokens[0].token_type == TokenType.DASH:
        sign, used = "-", 1
    if len(tokens) == used or tokens[used].token_type not in (TokenType.NUMBER, TokenType.STRING):
        return None, 0
    number, unit = tokens[used].text, tokens[used + 1].text if len(tokens) > used + 1 else ""
    if tokens[used].token_type == TokenType.STRING and (whole := text_to_us(number)) is not None:
        return -whole if sign else whole, used + 1
    if [token.text.upper() for token in tokens[used + 2 : used + 3]] == ["TO"] and len(tokens) > used + 3:
        spanned = span_to_us(number, unit, tokens[used + 3].text)
        return -spanned if sign and spanned is not None else spanned, used + 4
    return part_to_us(sign + number, unit), used + 2


def read_calendar(tokens: list[Token]) -> CalendarSpan | None:
    """One number of days, weeks, months, quarters or years, in any spelling; None if it is something else."""
    rest = tokens[1:] if tokens and tokens[0].token_type == TokenType.INTERVAL else tokens
    words = [token.text for token in rest]
    if [token.token_type for token in rest[:1]] == [TokenType.DASH]:
        words = [f"-{words[1]}", *words[2:]] if len(words) > 1 else words
    return text_to_calendar(" ".join(words))


def text_to_calendar(text: str) -> CalendarSpan | None:
    """The same for a text.

    >>> text_to_calendar("2 weeks"), text_to_calendar("1d"), text_to_calendar("1 day 2 hours")
    (CalendarSpan(count=2, unit='week'), CalendarSpan(count=1, unit='day'), None)
    """
    match = _PART.fullmatch(text)
    if match is None or not match[1].lstrip("+-").isdigit():
        return None
    return CalendarSpan.read(int(match[1]), "day" if match[2].lower() == "d" else match[2])


def node_to_calendar(node: exp.Expr) -> CalendarSpan | None:
    """The same for an argument of window(ts, …) or TUMBLE(ts, …)."""
    if isinstance(node, exp.Literal) and node.is_string:
        return text_to_calendar(node.name)
    if isinstance(node, exp.Neg):
        inner = node_to_calendar(node.this)
        return None if inner is None else CalendarSpan(-inner.count, inner.unit)
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    return text_to_calendar(f"{node.this.name} {unit.name if isinstance(unit, exp.Var) else ''}")


def _explain(source: SourceText, tokens: list[Token], what: str, span: Span) -> SqlError:
    words = [token.text for token in tokens]
    text = source.quote(span)
    if any(word.lower() in _CALENDAR for word in " ".join(words).split()):
        return bad_interval(source, f"`{text}` has no fixed length", span, "use days or smaller units: 30 DAYS")
    if tokens[0].token_type == TokenType.NUMBER and len(tokens) == 1:
        return bad_interval(source, f"{what} `{text}` has no unit", span)
    return bad_interval(source, f"`{text}` is not a duration", span)


def bad_interval(source: SourceText, message: str, span: Span | None, hint: str | None = None) -> SqlError:
    return source.error("BAD_INTERVAL", message, hint or f"write it like {EXAMPLES}", at=span)


def node_to_us(node: exp.Expr) -> int | None:
    """Microseconds of an argument of window(ts, …) or TUMBLE(ts, …); None if it is not a duration."""
    if isinstance(node, exp.Literal) and node.is_string:
        return text_to_us(node.name)
    if isinstance(node, exp.Alias) and isinstance(node.this, exp.Literal):
        return part_to_us(node.this.name, node.alias)
    if isinstance(node, exp.Neg):
        inner = node_to_us(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Add):
        parts = [node_to_us(node.left), node_to_us(node.right)]
        return None if None in parts else sum(part for part in parts if part is not None)
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return node_to_us(node.this) if isinstance(node, exp.Interval) and isinstance(node.this, exp.Neg) else None
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return span_to_us(node.this.name, unit.this.name, unit.expression.name)
    return part_to_us(node.this.name, unit.name) if isinstance(unit, exp.Var) else text_to_us(node.this.name)
