"""The output of the merge stage in one micro-batch.

Results are small next to the rows that they summarize. Their payloads therefore come to the driver with the reports of
the shards, in the one job that the batch needs anyway. Large ones stay in files (`overflow.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.connectors.sinks import SinkBatch, WorkerFunction
from windowpane.core.aggregation import empty_batch
from windowpane.core.blob import Blob
from windowpane.core.frames import ClosedStates, Emissions, SideRows
from windowpane.core.wire import unpack_frames
from windowpane.spark.driver_calls import DriverCalls
from windowpane.spark.job_stages import untagged
from windowpane.spark.merge_stage import CLOSED, REPORT, RESULTS, SIDE
from windowpane.spark.outputs import ResultFrame, spark_schema
from windowpane.spark.overflow import OVERFLOW, Part, parts_in, parts_table


@dataclass(frozen=True)
class Gathered:
    """What a transform gave in a micro-batch: payloads in this process, and places of payloads in files."""

    spark: SparkSession
    frame: ResultFrame
    reports: Sequence[bytes]
    results: Sequence[bytes]
    side_rows: Sequence[bytes]
    large_results: Sequence[Part]
    large_side_rows: Sequence[Part]
    closed: Sequence[bytes] = ()
    """Accumulators of closed windows, if they are kept."""
    large_closed: Sequence[Part] = ()

    @cached_property
    def emissions(self) -> DataFrame:
        """Results of the operators, as `ResultFrame` takes them."""
        return self._with_large(pa.Table.from_batches(self._emitted()), self.frame.unpack.run_parts)

    def table(self) -> pa.Table | None:
        """The query's results in Arrow; None if Spark must compute them, or they are in files."""
        return self._plain_table if self.frame.is_plain and not self.large_results else None

    def results_frame(self) -> DataFrame:
        """The query's results."""
        if self.frame.is_plain:
            return self._with_large(self._plain_table, self.frame.plain.run_parts)
        return self.frame.build(self.emissions)

    def identified(self, batch: SinkBatch) -> SinkBatch:
        """The results of a batch with the columns that identify the emission of each row, if they have an identity."""
        if not self.frame.has_identity:
            return batch
        build = partial(self.frame.build, self.emissions, identified=True)
        return replace(batch, build=build, table=None, identified=True, read_in_workers=None)

    def in_workers(self, run: WorkerFunction, schema: str) -> DataFrame:
        """What `run` makes of the query's results in the workers that read them from files."""
        if not self.frame.is_plain:
            return self.results_frame().mapInArrow(run, schema)
        frames = [self.spark.createDataFrame(self._places).mapInArrow(_Piped(self.frame.plain.run_parts, run), schema)]
        if self.results:
            small = self._plain_table
            frames.append(self.spark.createDataFrame(small, spark_schema(small.schema)).mapInArrow(run, schema))
        return reduce(DataFrame.unionAll, frames)

    @cached_property
    def _plain_table(self) -> pa.Table:
        return pa.Table.from_batches(map(self.frame.plain.chosen, self._emitted()))

    def _emitted(self) -> list[pa.RecordBatch]:
        unpack = self.frame.unpack
        batches = [unpack.identified(frame.batch) for frame in _frames(self.results) if isinstance(frame, Emissions)]
        # A table without any batch cannot go to Spark where a column is nested.
        return batches or [empty_batch(unpack.identified_schema)]

    @property
    def _places(self) -> pa.Table:
        return parts_table(self.large_results)

    def _with_large(self, small: pa.Table, read: WorkerFunction) -> DataFrame:
        """Rows in this process, and those that workers `read` from files, with the same columns."""
        schema = spark_schema(small.schema)
        frames = [self.spark.createDataFrame(small, schema)] if self.results or not self.large_results else []
        if self.large_results:
            frames.append(self.spark.createDataFrame(self._places).mapInArrow(read, schema))
        return reduce(DataFrame.unionAll, frames)

    def side(self) -> Iterator[pa.RecordBatch]:
        """Side rows."""
        large = (part.read(self.frame.access) for part in self.large_side_rows)
        for payloads in (self.side_rows, large):
            yield from (frame.batch for frame in _frames(payloads) if isinstance(frame, SideRows))

    def closed_states(self) -> Iterator[pa.RecordBatch]:
        """Accumulators of windows that have closed."""
        large = (part.read(self.frame.access) for part in self.large_closed)
        for payloads in (self.closed, large):
            yield from (frame.batch for frame in _frames(payloads) if isinstance(frame, ClosedStates))

    @property
    def has_files(self) -> bool:
        return bool(self.large_results or self.large_side_rows or self.large_closed)


@dataclass(frozen=True)
class _Piped:
    """Picklable: one function for workers after another."""

    first: WorkerFunction
    then: WorkerFunction

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.then(self.first(batches))


def _frames(payloads: Iterable[Blob]) -> Iterator[object]:
    return (frame for payload in payloads for frame in unpack_frames(payload)[0])


class Gathering:
    """Runs the Spark job of each micro-batch. `frames`: of each transform, by tag."""

    def __init__(self, spark: SparkSession, frames: Mapping[str, ResultFrame], calls: DriverCalls) -> None:
        self._spark, self._frames, self._calls = spark, frames, calls

    def gather(self, packed: DataFrame) -> dict[str, Gathered]:
        """What each transform gave in a micro-batch, by tag; after this its state is committed."""
        rows: dict[str, list[tuple[str, bytes]]] = {tag: [] for tag in self._frames}
        for marked, payload in self._calls.collect(packed):
            kind, tag = untagged(marked)
            rows[tag].append((kind, payload))
        return {tag: self._gathered(self._frames[tag], given) for tag, given in rows.items()}

    def _gathered(self, frame: ResultFrame, rows: Sequence[tuple[str, bytes]]) -> Gathered:
        def small(kind: str) -> list[bytes]:
            return [payload for its, payload in rows if its == kind]

        def large(kind: str) -> list[Part]:
            return [part for payload in small(OVERFLOW) for its, part in parts_in(payload) if its == kind]

        return Gathered(
            self._spark, frame, small(REPORT), small(RESULTS), small(SIDE), large(RESULTS), large(SIDE),
            small(CLOSED), large(CLOSED),
        )  # fmt: skip
