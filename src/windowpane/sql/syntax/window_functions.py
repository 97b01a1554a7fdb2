"""Windows written as functions in GROUP BY: ours (`tumblingwindow('ss', 10)`), Spark's and Flink's spellings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from windowpane.core.windows import (
    KINDS,
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
from windowpane.sql.syntax.dialect import When
from windowpane.sql.syntax.named_arguments import positional
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import WindowSyntax
from windowpane.sql.syntax.window_arguments import Arguments
from windowpane.time import UNIT_US

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
    arguments = Arguments(source, name, form, call, positional(source, call, _parameters(name), form))
    window = _READERS.get(name, _by_parts)(arguments)
    return _with_over(source, name, window, node) if isinstance(node, exp.Window) else window


def _by_parts(call: Arguments) -> WindowSyntax:
    """A kind's own function: the unit, then the parts in their order as whole numbers of it."""
    kind = _kind(call.name)
    assert kind is not None
    parts = [part for part in kind.parts if part.in_function]
    call.count(*range(1 + len(kind.required()), 2 + len(parts)))
    unit = call.unit()
    given = enumerate(parts[: len(call.given) - 1], 1)
    values = {part.name: _part(call, at, part, unit) for at, part in given}
    return call.window(call.built(kind, values, ["", *(part.name for part in parts)]))


def _part(call: Arguments, at: int, part: Part, unit: int) -> PartValue:
    if part.takes == "zone":
        return call.zone(at)
    number = call.number(at, part.name.lower(), unit, zero=part.zero)
    return CalendarSpan(number // unit, "day") if part.takes == "calendar" and unit == UNIT_US["dd"] else number


def _countwindow(call: Arguments) -> WindowSyntax:
    call.count(1, 2)
    count = call.number(0, "the number of rows")
    return call.window(Count(count, call.number(1, "step") if len(call.given) == 2 else count))


def _statewindow(call: Arguments) -> WindowSyntax:
    call.count(1, 2)
    emit = call.given[1] if len(call.given) == 2 else None
    return call.window(State(single=emit is None), open=call.given[0], emit=emit)


def _window(call: Arguments) -> WindowSyntax:
    call.count(2, 3, 4)
    names = ("", "SIZE", "SLIDE", "OFFSET")[: len(call.given)]
    values = _amounts(call, names)
    if "SLIDE" in values and _fixed(values["SLIDE"]) == _fixed(values["SIZE"]):
        del values["SLIDE"]
    kind = Hopping if "SLIDE" in values else Tumbling
    return call.window(call.built(kind, values, names), on=call.given[0])


def _fixed(value: PartValue) -> PartValue:
    return (isinstance(value, CalendarSpan) and value.fixed_us) or value


def _amounts(call: Arguments, names: Sequence[str]) -> dict[str, PartValue]:
    """The durations behind the time, in the order of their names."""
    return {name: call.amount(index, name.lower(), signed=name == "OFFSET") for index, name in enumerate(names) if name}


def _over_time(kind: type[WindowSpec], *names: str) -> Callable[[Arguments], WindowSyntax]:
    """Reads Flink's function for a kind: the time, its durations, and an offset where one is wanted."""

    def read(call: Arguments) -> WindowSyntax:
        call.count(1 + len(names), 2 + len(names))
        given = ("", *names, "OFFSET")[: len(call.given)]
        return call.window(call.built(kind, _amounts(call, given), given), on=call.given[0])

    return read


def _session_window(call: Arguments) -> WindowSyntax:
    call.count(2)
    return call.window(Session(call.duration(1, "gap")), on=call.given[0])


_READERS: dict[str, Callable[[Arguments], WindowSyntax]] = {
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
