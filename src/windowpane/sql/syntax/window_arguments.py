"""The arguments of window functions: numbers, durations, units and time zones, with the errors of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from windowpane.core.windows import BadWindow, CalendarSpan, PartValue, WindowSpec
from windowpane.errors import Span, SqlError, nearest
from windowpane.sql.syntax.intervals import EXAMPLES, node_to_calendar, node_to_us
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import WindowSyntax
from windowpane.time import MAX_US, UNIT_US


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, by position."""

    source: SourceText
    name: str
    form: str
    call: exp.Expr
    given: Sequence[exp.Expr]

    def count(self, *allowed: int) -> None:
        if len(self.given) not in allowed:
            wanted = " or ".join(str(number) for number in allowed)
            plural = "" if allowed[-1] == 1 else "s"
            message = f"{self.name} takes {wanted} argument{plural}, not {len(self.given)}"
            raise self.source.error("WINDOW_ARITY", message, f"write {self.form}", at=self.call)

    def unit(self) -> int:
        node = self.given[0]
        if not (isinstance(node, exp.Literal) and node.is_string):
            raise self.bad("NOT_A_STRING", node, "the unit must be a quoted word", f"units are: {_units('')}")
        factor = UNIT_US.get(node.name)
        if factor is None:
            message = f"unknown unit `{node.name}` in {self.name}"
            raise self.source.error("UNKNOWN_UNIT", message, f"units are: {_units(node.name)}", at=node)
        return factor

    def zone(self, index: int) -> str:
        node = self.given[index]
        if not (isinstance(node, exp.Literal) and node.is_string):
            raise self.bad("NOT_A_STRING", node, "the time zone must be a quoted name")
        return node.name

    def number(self, index: int, what: str, factor: int = 1, *, zero: bool = False) -> int:
        """A whole literal number, positive (or zero where that has a meaning), in units of `factor`."""
        node = self.given[index]
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            message = f"{what} must not be negative: `-{node.this.name}`"
            raise self.source.error("NEGATIVE_ARGUMENT", message, f"write {self.form}", at=_with_sign(self, node))
        if not isinstance(node, exp.Literal):
            raise self.bad("NOT_A_LITERAL", node, f"{what} must be an integer literal")
        if node.is_string:
            raise self.bad("NOT_A_NUMBER", node, f"{what} must be a number, not the string {self.source.quote(node)}")
        if not node.name.isdigit():
            raise self.bad("FRACTIONAL_ARGUMENT", node, f"{what} must be a whole number, not {node.name}")
        return self.positive(int(node.name) * factor, what, node, zero=zero)

    def duration(self, index: int, what: str, *, signed: bool = False) -> int:
        node = self.given[index]
        us = node_to_us(node)
        if us is None:
            hint = f"write it like {EXAMPLES}, as in {self.form}"
            raise self.bad("BAD_INTERVAL", node, f"{what} must be a duration", hint)
        if us < 0 and not signed:
            message = f"{what} must not be negative"
            raise self.source.error("NEGATIVE_ARGUMENT", message, f"write {self.form}", at=node)
        return us if signed else self.positive(us, what, node)

    def amount(self, index: int, what: str, *, signed: bool = False) -> int | CalendarSpan:
        """A duration that may be in days or months of the calendar."""
        span = node_to_calendar(self.given[index])
        if span is None or (span.count < 0 and not signed):
            return self.duration(index, what, signed=signed)
        if not signed:
            self.positive(span.count, what, self.given[index])
        return span

    def positive(self, value: int, what: str, node: exp.Expr, *, zero: bool = False) -> int:
        if value > MAX_US:
            raise self.bad("ARGUMENT_TOO_LARGE", node, f"{what} is too large")
        if value == 0 and not zero:
            raise self.source.error("ZERO_ARGUMENT", f"{what} must not be zero", "write 1 or more", at=node)
        return value

    def bad(self, code: str, node: exp.Expr, message: str, hint: str | None = None) -> SqlError:
        return self.source.error(code, message, hint or f"write {self.form}", at=node)

    def built(self, kind: type[WindowSpec], values: Mapping[str, PartValue], names: Sequence[str]) -> WindowSpec:
        """The window with these parts; `names` are those of the arguments."""
        try:
            return kind.build(values)
        except BadWindow as bad:
            raise self.source.error(bad.code, bad.message, bad.hint, at=self.given[names.index(bad.part)]) from None

    def window(self, spec: WindowSpec, **expressions: exp.Expr | None) -> WindowSyntax:
        return WindowSyntax(spec, self.name, self.source.span(self.call), **expressions)  # type: ignore[arg-type]


def _with_sign(arguments: Arguments, node: exp.Expr) -> Span | None:
    span = arguments.source.span(node)
    if span is None:
        return None
    start = arguments.source.sql.rfind("-", 0, span.start)
    return Span(start if start >= 0 else span.start, span.end)


def _units(name: str) -> str:
    return nearest(name, UNIT_US)
