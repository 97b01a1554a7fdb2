"""Where the columnar scan finds a row's event time: the steps of a plan that a worker can take by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windowpane.core.columns import TIME_SOURCES
from windowpane.evaluation.event_times import EventTimeColumn, EventTimes
from windowpane.plan.eventtime.steps import TimeStep, time_source
from windowpane.plan.scan_sources import Refused
from windowpane.sql.types import INTEGRAL

_UNITS_US = {"unixtimestamp_s": 1_000_000, "unixtimestamp_ms": 1_000, "unixtimestamp_us": 1}
_INSTANTS = {"timestamp": ("TIMESTAMP",), "iso8601": ("TIMESTAMP", "STRING")}
_CLOCK = "processing_time"


def scan_times(steps: Sequence[TimeStep], types: Mapping[str, str]) -> EventTimes | None:
    """None where rows have the time of their micro-batch; Refused where only Spark can tell.

    Rows need not say where they have their time from if it can be in one place only, or else is the clock's: then the
    host fills in the clock.
    """
    clock = steps[-1].origin == _CLOCK
    looked = steps[:-1] if clock else steps
    if not looked:
        return None
    columns = tuple(_column(step, types) for step in looked)
    chained = len(looked) > 1
    told = chained and len({time_source(step) for step in steps}) > 1
    return EventTimes(columns, told=told, clock=chained and clock)


def _column(step: TimeStep, types: Mapping[str, str]) -> EventTimeColumn:
    if step.error is not None:
        raise Refused(f"event time is computed: {step.text}")
    column = step.text.strip("`")
    kind = step.column_type if step.origin == "source" else types.get(column)
    unit_us = _UNITS_US.get(step.type)
    readable = kind in INTEGRAL if unit_us is not None else kind in _INSTANTS.get(step.type, ())
    if not readable:
        raise Refused(f"event time is {step.text}: {step.type} of {kind or 'an expression'}")
    code = TIME_SOURCES.index(time_source(step))
    return EventTimeColumn(column, unit_us, strict=step.on_failure == "error", type=step.type, code=code)
