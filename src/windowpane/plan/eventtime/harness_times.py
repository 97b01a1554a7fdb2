"""Where the harness finds a row's event time: every step of a plan that can be evaluated without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from windowpane.errors import PlanError
from windowpane.evaluation.event_times import EventTimes, TimeLookup
from windowpane.evaluation.unix_times import parse_timestamps, parse_unix
from windowpane.plan.evaluation import Compiler
from windowpane.plan.eventtime.scan_times import time_lookup
from windowpane.plan.eventtime.steps import TimeStep
from windowpane.plan.eventtime.types import EventtimeTypes
from windowpane.sql.query import Expr


def harness_times(steps: Sequence[TimeStep], types: EventtimeTypes, compiler: Compiler) -> EventTimes:
    """All steps, and rows always say where they have their time from."""
    clock = steps[-1].origin == "processing_time"
    looked = steps[:-1] if clock else steps
    return EventTimes(tuple(_lookup(step, types, compiler) for step in looked), names_source=True, clock=clock)


def _lookup(step: TimeStep, types: EventtimeTypes, compiler: Compiler) -> TimeLookup:
    """By the type's Arrow function, else by its template."""
    parser = types.resolve(step.type).parser
    value = None if step.text.strip("`") in compiler.types else compiler.computed(Expr(step.text, step.column_type))
    if parser.arrow is not None:
        return time_lookup(step, parser.arrow, value)
    if not isinstance(parser.sql, str):
        raise PlanError(
            "UNSUPPORTED_IN_HARNESS",
            f"event-time type `{step.type}` has neither an Arrow parser nor a template",
            "register it with one: EventtimeParser(sql=…, arrow=…)",
        )
    time = compiler.computed(Expr(parser.spark_sql(step.text), None))
    parse = partial(parse_unix, unit_us=1) if pa.types.is_integer(time.type) else parse_timestamps
    return time_lookup(step, parse, value, time)
