"""Where the columnar scan finds a row's event time: the steps of a plan that a worker can take by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windowpane.core.columns import TIME_SOURCES
from windowpane.evaluation.event_times import EventTimes, TimeLookup
from windowpane.evaluation.expressions import Computed
from windowpane.plan.eventtime.steps import TimeStep, time_source
from windowpane.plan.eventtime.types import ArrowParser, builtin_types
from windowpane.plan.guard import in_words
from windowpane.plan.scan_sources import Refused
from windowpane.plan.stages import InputStage
from windowpane.sql.types import INTEGRAL

_READABLE = {
    "unixtimestamp_s": INTEGRAL, "unixtimestamp_ms": INTEGRAL, "unixtimestamp_us": INTEGRAL,
    "timestamp": ("TIMESTAMP",), "iso8601": ("TIMESTAMP", "STRING"),
}  # fmt: skip
"""Types of columns whose values the workers read exactly as Spark does."""
_CLOCK = "processing_time"


def scan_times(stage: InputStage, steps: Sequence[TimeStep], types: Mapping[str, str]) -> EventTimes | None:
    """None where rows have the time of their micro-batch; Refused where only Spark can tell.

    `steps`: those of one of the stage's streams. Rows need not say where they have their time from if it can be in one
    place only, or else is the clock's: then the host fills in the clock.
    """
    clock = steps[-1].origin == _CLOCK
    lookups = tuple(_lookup(step, types) for step in (steps[:-1] if clock else steps))
    names_source = len(stage.time_sources) > 1 and not stage.clock_fallback
    if not lookups and not names_source:
        return None
    return EventTimes(lookups, names_source=names_source, clock=clock and not stage.clock_fallback)


def _lookup(step: TimeStep, types: Mapping[str, str]) -> TimeLookup:
    if step.error is not None:
        raise Refused(f"event time is computed: {step.text}")
    column = step.text.strip("`")
    kind = step.column_type if step.origin == "source" else types.get(column)
    parse = builtin_types().resolve(step.type).parser.arrow if kind in _READABLE.get(step.type, ()) else None
    if parse is None:
        raise Refused(f"event time is {step.text}: {step.type} of {kind or 'an expression'}")
    return time_lookup(step, parse)


def time_lookup(
    step: TimeStep, parse: ArrowParser, value: Computed | None = None, time: Computed | None = None
) -> TimeLookup:
    """A step of a plan as it is evaluated. `value` and `time`: what is computed for it."""
    return TimeLookup(
        column=in_words(step.text.strip("`")) if value is not None else step.text.strip("`"),
        parse=parse,
        strict=step.on_failure == "error",
        type=step.type,
        code=TIME_SOURCES.index(time_source(step)),
        value=value,
        time=time,
    )
