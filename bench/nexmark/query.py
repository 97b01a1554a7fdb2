"""What the benchmark knows of a query: its texts, its data, and what its results look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bench.nexmark.generator import Shape, Stream, Table
from bench.nexmark.message_values import ValueFormat
from bench.nexmark.windows import Window

Source: TypeAlias = Literal["files", "kafka"]
TIMES = frozenset({"window_start", "window_end", "ts", "bid_ts"})
TEXTS = frozenset({"name", "item_name", "channel", "url", "on_day", "last_minute", "label", "time_of_day"})
DECIMALS = frozenset({"reduced"})
"""Columns of results by type; all others are BIGINT."""


@dataclass(frozen=True)
class Query:
    """`share`: of the rows asked for: less where a peer is so slow that all of them would take an hour, more where all
    are so fast that the largest batches are soon through.
    """

    name: str
    title: str
    windowpane: str
    flink: str
    duckdb: str
    columns: tuple[str, ...]
    shape: Shape = field(default_factory=Shape)
    streams: tuple[Stream, ...] = ("bids",)
    tables: tuple[Table, ...] = ()
    """Static tables that it joins."""
    time: str = "window_end"
    """The column that tells which results are complete."""
    share: float = 1.0
    over_spark: float | None = None
    """The ratio to reach."""
    over_flink: float | None = None
    window: Window | None = None
    """Of the plain aggregations, which Spark's spelling is made from."""
    source: Source = "files"
    value_format: ValueFormat = "json"
    """Of messages in Kafka."""
    clocked_s: int = 0
    """Windows of so many seconds of processing time. What comes out depends on the clock: its sums are compared."""
    spark_batch_rows: int | None = None
    """The largest batch that is tried on Spark, where larger ones cannot be best and take minutes."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """By engine, of the query's rows: the first ones, where it takes minutes for all and gains nothing by more."""

    def share_of(self, engine: str) -> float:
        return self.shares.get(engine, 1.0)
