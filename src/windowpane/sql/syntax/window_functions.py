"""Windows written as functions in GROUP BY: ours (`tumblingwindow('ss', 10)`), Spark's and Flink's spellings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from windowpane.core.windows import (
    KINDS,
    BadWindow,
    CalendarSpan,
    Count,
    Cumulate,
    Hopping,
    Part,
    PartValue,
    Session,
    State,
    Tumbling,
    WindowSpec,
)
from windowpane.errors import Span, SqlError, nearest
from windowpane.sql.syntax.dialect import When
from windowpane.sql.syntax.intervals import EXAMPLES, node_to_calendar, node_to_us
from windowpane.sql.syntax.named_arguments import positional
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import WindowSyntax
from windowpane.time import MAX_US, UNIT_US

_FORMS = {
    "countwindow": "countwindow(n[, step])",
    "statewindow": "statewindow(open[, emit])",
    "window": "window(ts, '10 seconds'[, '5 seconds'[, '1 second']])",
    "session_window": "session_window(ts, '5 minutes')",
    "tumble": "TUMBLE(ts, INTERVAL '10' SECOND)",
    "hop": "HOP(ts, slide, size)",
    "cumulate": "CUMULATE(ts, step, size)",
    "session": "SESSION(ts, gap)",
}
"""Window functions that are not made from the parts of their kind, and how each is called."""

_PARAMETERS = {
    "countwindow": ("n", "step"),
    "statewindow": ("open", "emit"),
    "window": ("timecolumn", "windowduration", "slideduration", "starttime"),
    "session_window": ("timecolumn", "gapduration"),
    "tumble": ("timecol", "size", "offset"),
    "hop": ("timecol", "slide", "size", "offset"),
    "cumulate": ("timecol", "step", "size", "offset"),
    "session": ("timecol", "gap"),
}
"""The names of their arguments: those of Spark and Flink for functions that are theirs."""

FLINK_AUXILIARY = {
    f"{kind}_{part}": column
    for kind in ("tumble", "hop", "session")
    for part, column in {
        "start": "window_start",
        "end": "window_end",
        "rowtime": "window_time",
        "proctime": "window_end",
    }.items()
}
"""Flink's functions for a window's bounds, and the pseudo-columns that stand for them here."""


def _kind(name: str) -> type[WindowSpec] | None:
    """The window kind of a function name: `tumblingwindow` belongs to `tumbling`."""
    return KINDS.get(name.removesuffix("window")) if name.endswith("window") else None


def signature(name: str) -> str | None:
    """How a window function is called, None where there is no such function."""
    kind = _kind(name)
    return _FORMS.get(name) or (kind.function_form() if kind and kind.parts else None)


def _parameters(name: str) -> tuple[str, ...]:
    kind = _kind(name)
    if name in _PARAMETERS or kind is None:
        return _PARAMETERS[name]
    return ("unit", *(part.name.lower().replace(" ", "_") for part in kind.parts if part.in_function))


def window_name(node: exp.Expr | None) -> str | None:
    """The window function that a node calls, with or without OVER; None if it calls none."""
    if isinstance(node, exp.Window):
        node = node.this
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and signature(node.this.lower()):
        return node.this.lower()
    return None


def read_window(source: SourceText, node: exp.Expr) -> WindowSyntax:
    """The window that a GROUP BY expression stands for, its arguments checked."""
    name = window_name(node)
    assert name is not None
    call = node.this if isinstance(node, exp.Window) else node
    form = signature(name) or ""
    arguments = _Arguments(source, name, form, call, positional(source, call, _parameters(name), form))
    window = _READERS.get(name, _by_parts)(arguments)
    return _with_over(source, name, window, node) if isinstance(node, exp.Window) else window


@dataclass(frozen=True)
class _Arguments:
    """The arguments of one call, with the checks they share."""

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

    def window(self, spec: WindowSpec, **expressions: exp.Expr | None) -> WindowSyntax:
        return WindowSyntax(spec, self.name, self.source.span(self.call), **expressions)  # type: ignore[arg-type]


def _with_sign(arguments: _Arguments, node: exp.Expr) -> Span | None:
    span = arguments.source.span(node)
    if span is None:
        return None
    start = arguments.source.sql.rfind("-", 0, span.start)
    return Span(start if start >= 0 else span.start, span.end)


def _units(name: str) -> str:
    return nearest(name, UNIT_US)


def _by_parts(call: _Arguments) -> WindowSyntax:
    """A kind's own function: the unit, then the parts in their order as whole numbers of it."""
    kind = _kind(call.name)
    assert kind is not None
    parts = [part for part in kind.parts if part.in_function]
    call.count(*range(1 + len(kind.required()), 2 + len(parts)))
    unit = call.unit()
    given = enumerate(parts[: len(call.given) - 1], 1)
    values = {part.name: _part(call, at, part, unit) for at, part in given}
    return call.window(_built(call, kind, values, ["", *(part.name for part in parts)]))


def _part(call: _Arguments, at: int, part: Part, unit: int) -> PartValue:
    if part.takes == "zone":
        return call.zone(at)
    number = call.number(at, part.name.lower(), unit, zero=part.zero)
    return CalendarSpan(number // unit, "day") if part.takes == "calendar" and unit == UNIT_US["dd"] else number


def _built(
    call: _Arguments, kind: type[WindowSpec], values: Mapping[str, PartValue], names: Sequence[str]
) -> WindowSpec:
    """The window with these parts; `names` are those of the arguments."""
    try:
        return kind.build(values)
    except BadWindow as bad:
        raise call.source.error(bad.code, bad.message, bad.hint, at=call.given[names.index(bad.part)]) from None


def _countwindow(call: _Arguments) -> WindowSyntax:
    call.count(1, 2)
    count = call.number(0, "the number of rows")
    return call.window(Count(count, call.number(1, "step") if len(call.given) == 2 else count))


def _statewindow(call: _Arguments) -> WindowSyntax:
    call.count(1, 2)
    emit = call.given[1] if len(call.given) == 2 else None
    return call.window(State(single=emit is None), open=call.given[0], emit=emit)


def _window(call: _Arguments) -> WindowSyntax:
    call.count(2, 3, 4)
    names = ("", "SIZE", "SLIDE", "OFFSET")[: len(call.given)]
    values = _amounts(call, names)
    if "SLIDE" in values and values["SLIDE"] == values["SIZE"]:
        del values["SLIDE"]
    kind = Hopping if "SLIDE" in values else Tumbling
    return call.window(_built(call, kind, values, names), on=call.given[0])


def _amounts(call: _Arguments, names: Sequence[str]) -> dict[str, PartValue]:
    """The durations behind the time, in the order of their names."""
    return {name: call.amount(index, name.lower(), signed=name == "OFFSET") for index, name in enumerate(names) if name}


def _over_time(kind: type[WindowSpec], *names: str) -> Callable[[_Arguments], WindowSyntax]:
    """Reads Flink's function for a kind: the time, its durations, and an offset where one is wanted."""

    def read(call: _Arguments) -> WindowSyntax:
        call.count(1 + len(names), 2 + len(names))
        given = ("", *names, "OFFSET")[: len(call.given)]
        return call.window(_built(call, kind, _amounts(call, given), given), on=call.given[0])

    return read


def _session_window(call: _Arguments) -> WindowSyntax:
    call.count(2)
    return call.window(Session(call.duration(1, "gap")), on=call.given[0])


_READERS: dict[str, Callable[[_Arguments], WindowSyntax]] = {
    "countwindow": _countwindow,
    "statewindow": _statewindow,
    "window": _window,
    "session_window": _session_window,
    "tumble": _over_time(Tumbling, "SIZE"),
    "hop": _over_time(Hopping, "SLIDE", "SIZE"),
    "cumulate": _over_time(Cumulate, "STEP", "SIZE"),
    "session": _session_window,
}


def _with_over(source: SourceText, name: str, window: WindowSyntax, node: exp.Window) -> WindowSyntax:
    if not window.spec.partitioned:
        takers = ", ".join(f"{kind.kind}window" for kind in KINDS.values() if kind.partitioned)
        hint = f"remove OVER and put the columns into GROUP BY; {takers} take it"
        raise source.error("OVER_NOT_ALLOWED", f"{name} does not support OVER", hint, at=node)
    return over(source, window, node)


def over(source: SourceText, window: WindowSyntax, node: exp.Window) -> WindowSyntax:
    """The window with the PARTITION BY and WHEN of its OVER."""
    order, partition = node.args.get("order"), tuple(node.args.get("partition_by") or ())
    when = order.this if isinstance(order, When) else None
    if node.args.get("spec") is not None or (order is not None and when is None):
        hint = "write OVER (PARTITION BY k), OVER (WHEN condition) or both"
        raise source.error("BAD_OVER", "OVER of a window takes PARTITION BY and WHEN only", hint, at=node)
    if when is not None and not window.spec.triggered:
        raise source.error(
            "BAD_OVER", "only slidingwindow takes OVER (WHEN …)", "put the condition into WHERE", at=when
        )
    if when is None and not partition:
        raise source.error("BAD_OVER", "OVER () is empty", "write OVER (PARTITION BY k) or leave it out", at=node)
    return replace(window, span=source.span(node), partition_by=partition, when=when)
