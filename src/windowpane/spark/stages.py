"""The Python stages as workers run them: graphs of operators, and the routing of rows to shards.

Workers import this module and the core, but neither planner nor SQL, so that they start fast.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.frames import Given
from windowpane.core.graph import Graph
from windowpane.core.lateness import LatenessJudge
from windowpane.core.numbering import Portion
from windowpane.core.routing import Route
from windowpane.core.time_range import ALWAYS, TimeRange
from windowpane.core.wire import data_rows
from windowpane.spark.overflow import NO_OVERFLOW, Overflow

PACKED = "shard int, origin int, kind string, payload binary"
"""The rows between stages. `origin`: the task or shard that a message comes from."""
MESSAGE = "message"
"""The kind of rows that the next stage takes. It hands on all others."""
SENT, RECEIVED = "sent.", "received."
"""Prefixes of tallies: what crosses the shuffle in front of each step, by its senders and by its receivers."""


@dataclass(frozen=True)
class Stages:
    """All stages of a query, sent to the workers. Each task unpickles operators of its own."""

    templates: tuple[bytes, ...]
    """The operators of each step: those in the tasks of the source, then those behind each shuffle."""
    routes: tuple[Mapping[str, Route], ...]
    """For each step, how rows reach its entries."""
    aliases: tuple[tuple[str, str], ...]
    """Columns that operators read, each with the column that crosses."""
    stream: str
    """Name of the only stream, for sources of one partition."""
    shards: int
    feedback: bool
    """The driver sends the watermark of the previous batch to the tasks."""
    time_source: str | None = None
    """The source of all event times; None if a column names it for each row."""
    clock_fallback: bool = False
    """Rows without a time get that of the micro-batch."""
    result_columns: tuple[str, ...] | None = None
    """Columns of the results that leave the last stage; None for all."""
    arrival_states: tuple[str, ...] = ()
    """State columns of partial accumulators that contain arrival numbers."""
    overflow: Overflow = NO_OVERFLOW
    """Where large results go."""
    ordered: bool = True
    """Results depend on the order of rows, so that rows are numbered in the order of their files."""
    judge: LatenessJudge | None = None
    """How rows are judged, for the sketch of lateness; None if that is not kept."""
    rows_in: TimeRange = ALWAYS
    """Rows outside are counted and skipped. Only a backfill has bounds."""
    results_in: TimeRange = ALWAYS
    """Results outside leave no stage. Only a backfill has bounds."""

    def fold_identity(self) -> tuple[object, ...]:
        """All that determines what the fold stage makes of rows. Stages with equal ones send equal messages."""
        return (
            self.templates[0], self.routes[:2], self.aliases, self.stream, self.shards, self.time_source,
            self.clock_fallback, self.ordered, self.rows_in,
        )  # fmt: skip

    def fold(self) -> Graph:
        """Operators before the first shuffle; they hold no state between micro-batches."""
        return self.graph(0)

    def graph(self, step: int) -> Graph:
        """The operators of a step, without state."""
        graph: Graph = pickle.loads(self.templates[step])  # noqa: S301  # made by our own driver
        return graph

    def complete_rows(self, batch: pa.RecordBatch, first_arrival: int) -> pa.RecordBatch:
        """A batch from Spark with the columns that operators expect and Spark does not send."""
        count = batch.num_rows
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns[c.ARRIVAL] = pa.array(first_arrival + np.arange(count, dtype=np.int64))
        if c.SOURCE_PARTITION not in columns:
            codes = pa.array(np.zeros(count, np.int8))
            columns[c.SOURCE_PARTITION] = pa.DictionaryArray.from_arrays(codes, pa.array([f"{self.stream}/0"]))
        columns |= {name: columns[column] for name, column in self.aliases}
        return pa.RecordBatch.from_pydict(columns)

    @property
    def last_step(self) -> int:
        """How many shuffles there are, each with a stateful stage behind it."""
        return len(self.templates) - 1

    def route_portions(self, portions: Iterable[Portion], step: int, home: int) -> list[list[Portion]]:
        """Portions by shard of `step`. Every shard gets all portions, each with only the frames of that shard."""
        routed: list[list[Portion]] = [[] for _ in range(self.shards)]
        for portion in portions:
            parts = [Portion(portion.place, portion.rows) for _ in routed]
            earlier = set(self.routes[step - 1].values())
            before = earlier.pop() if len(earlier) == 1 else None
            for source, frames in groupby(portion.frames, key=lambda given: given.source):
                route = self.routes[step].get(source, Route())
                sent = (given.frame for given in frames)
                for part, split in zip(parts, route.split(sent, self.shards, home, before=before), strict=True):
                    part.frames += [Given(source, frame) for frame in split]
            for shard, part in enumerate(parts):
                routed[shard].append(part)
        return routed


def sent_rows(routed: Iterable[Iterable[Portion]]) -> int:
    """Rows, partial accumulators and the like in the portions of all shards."""
    return sum(data_rows(given.frame for given in portion.frames) for portions in routed for portion in portions)
