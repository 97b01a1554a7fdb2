"""Steps of the chain that resolves a row's event time, each as a Spark expression in BIGINT microseconds.

A type that the user has registered may yield TIMESTAMP too, and must not be able to stop the query: what its expression
cannot compute is a value that could not be read.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from windowpane.core import columns as c
from windowpane.core.side import SHOWN
from windowpane.errors import PlanError, gist
from windowpane.plan.eventtime.steps import TimeStep
from windowpane.plan.eventtime.types import ArrowParser, EventtimeParser, EventtimeTypes
from windowpane.plan.guard import in_words
from windowpane.spark.envelope import fallible, is_ansi, tried
from windowpane.spark.python_functions import shielded
from windowpane.sql import error_guard

NOW = "unix_micros(current_timestamp())"
"""In a streaming query Spark records the micro-batch's timestamp, and a replayed batch gets the same one."""


@dataclass(frozen=True)
class TimeExpressions:
    """Expressions over the columns of `source`."""

    spark: SparkSession
    types: EventtimeTypes
    source: DataFrame

    def value(self, step: TimeStep) -> str:
        """NULL where the step yields no time."""
        if step.origin == "processing_time":
            # A record that could not be read would move the watermark to the clock.
            return f"CASE WHEN {c.CORRUPT} IS NULL THEN {NOW} END" if c.CORRUPT in self.source.columns else NOW
        kind = step.column_type or self._type_of(step.text)
        parser = self.types.resolve(step.type).parser
        value = _bounded(self._parsed(step, parser, kind))
        if self._may_fail(step, parser):
            value = tried(value)
        guard = self._guard(step)
        return f"CASE WHEN {guard} IS NULL THEN {value} END" if guard else value

    def _text(self, step: TimeStep) -> str:
        return shielded(self.spark, step.text, tried)

    def _may_fail(self, step: TimeStep, parser: EventtimeParser) -> bool:
        """A parser of ours takes every value of a column; an expression, or a user's parser, may fail."""
        own = not isinstance(parser.sql, str)
        return not own or (step.columns != (step.text,) and bool(fallible(self.source, [step.text])))

    def absent(self, step: TimeStep) -> str:
        """Whether a row has NULL there, and not a value that cannot be computed."""
        guard = self._guard(step)
        return f"{f'{guard} IS NULL AND ' if guard else ''}{tried(f'({self._text(step)}) IS NULL')}"

    def _guard(self, step: TimeStep) -> str | None:
        """Without ANSI mode Spark computes something for every row: only the guard knows bad ones."""
        return None if step.error is None or is_ansi(self.source) else tried(step.error)

    def failure(self, step: TimeStep) -> str:
        """For a row that a strict step gives no time: what it has there instead."""
        name = in_words(step.text.strip("`"))
        there = f"substring(CAST({self._text(step)} AS STRING), 1, {SHOWN})"
        detail = f"coalesce(concat('{name} is ', {there}, ', which is no {step.type}'), '{name} is NULL')"
        guard, failed = self._guard(step), f"'cannot compute {name}'"
        detail = f"coalesce({tried(detail)}, {failed})"
        return f"CASE WHEN {guard} IS NULL THEN {detail} ELSE {failed} END" if guard else detail

    def _parsed(self, step: TimeStep, parser: EventtimeParser, kind: str) -> str:
        if parser.sql is None and parser.arrow is not None:
            return self._by_arrow(parser.arrow, self._text(step))
        value = shielded(self.spark, parser.spark_sql(step.text, kind), tried)
        return self._checked(step, value, kind) if isinstance(parser.sql, str) else value

    def _by_arrow(self, parse: ArrowParser, text: str) -> str:
        """A function over Arrow columns, called in the workers under a name that no one else has."""
        name = f"wp_time_{uuid.uuid4().hex}"

        def micros(values: pa.Array) -> pa.Array:
            try:
                return parse(values)[0].cast(pa.int64())
            except Exception:  # noqa: BLE001  # a user's code may raise anything: the values to blame are found by halving
                if len(values) <= 1:
                    return pa.nulls(len(values), pa.int64())
            middle = len(values) // 2
            return pa.concat_arrays([micros(values[:middle]), micros(values[middle:])])

        function = arrow_udf(micros, "bigint")  # type: ignore[call-overload]  # its type hints say the rest
        self.spark.udf.register(name, function)
        return f"{name}({text})"

    def _checked(self, step: TimeStep, value: str, kind: str) -> str:
        """A user's expression: guarded, and as microseconds."""
        guard = None if is_ansi(self.source) else error_guard(value, {step.text.strip("`"): kind})
        try:
            found = self._type_of(value)
        except PySparkException as refused:
            raise PlanError(
                "BAD_EVENTTIME_TYPE", f"Spark rejects the expression of eventtime.type `{step.type}`: {value}",
                gist(refused),
            ) from refused  # fmt: skip
        if found not in ("TIMESTAMP", "BIGINT"):
            raise PlanError(
                "BAD_EVENTTIME_TYPE", f"the expression of eventtime.type `{step.type}` yields {found}: {value}",
                "it must yield BIGINT (microseconds since the epoch) or TIMESTAMP, and NULL for what cannot be read",
            )  # fmt: skip
        micros = f"unix_micros({value})" if found == "TIMESTAMP" else value
        return f"CASE WHEN {tried(guard)} IS NULL THEN {micros} END" if guard else micros

    def _type_of(self, text: str) -> str:
        return self.source.selectExpr(f"{text} AS v").schema["v"].dataType.simpleString().upper()


def _bounded(micros: str) -> str:
    """NULL for what lies beyond `event_times.FARTHEST_US`: what cannot be doubled."""
    return f"(try_multiply({micros}, 2L) div 2L)"
