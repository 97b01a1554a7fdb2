"""The steps that find a row's event time, as fields of plan nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Origin: TypeAlias = Literal["sql_override", "config_field", "stream_column", "metadata", "source", "processing_time"]


@dataclass(frozen=True)
class TimeStep:
    """One place to take a row's event time from. `type` is a name of the event-time registry.

    `text` is Spark SQL over `columns` (empty for processing time). `on_failure`: a row without a readable value goes on
    to the next step, or is an error row.
    """

    origin: Origin
    text: str = ""
    type: str = ""
    column_type: str | None = None
    columns: tuple[str, ...] = ()
    on_failure: Literal["next", "error"] = "next"
    error: str | None = None
    """Spark SQL that is not NULL where `text` cannot be evaluated: the row then has no value from this step."""

    def describe(self) -> str:
        if self.origin == "processing_time":
            return "processing_time"
        strict = " or error" if self.on_failure == "error" else ""
        return f"{self.origin}({self.text}: {self.type}){strict}"


@dataclass(frozen=True)
class TimeChains:
    """`top` is resolved over the columns of FROM; otherwise each stream has its own chain, over its own columns."""

    top: tuple[TimeStep, ...] = ()
    per_stream: tuple[tuple[TimeStep, ...], ...] = ()


def time_source(step: TimeStep) -> str:
    """Which of `columns.TIME_SOURCES` a step counts as."""
    return "metadata" if step.origin == "source" else step.origin


PROCESSING_TIME_STEP = TimeStep("processing_time")
PROCESSING_TIME = TimeChains(top=(PROCESSING_TIME_STEP,))
