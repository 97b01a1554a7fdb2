"""The output of the merge stage in one micro-batch.

Results are small next to the rows that they summarize. Their payloads therefore come to the driver with the reports of
the shards, in the one job that the batch needs anyway. Large ones stay in files (`overflow.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.core.aggregation import empty_batch
from windowpane.core.blob import Blob
from windowpane.core.frames import Emissions, SideRows
from windowpane.core.wire import unpack_frames
from windowpane.spark.driver_calls import DriverCalls
from windowpane.spark.merge_stage import REPORT, RESULTS, SIDE
from windowpane.spark.outputs import ResultFrame
from windowpane.spark.overflow import OVERFLOW, Part, parts_in, parts_table


@dataclass(frozen=True)
class Gathered:
    """A micro-batch's output: payloads in this process, and places of payloads in files."""

    spark: SparkSession
    frame: ResultFrame
    reports: Sequence[bytes]
    results: Sequence[bytes]
    side_rows: Sequence[bytes]
    large_results: Sequence[Part]
    large_side_rows: Sequence[Part]
    remove_files: Callable[[], None]

    def emissions(self) -> DataFrame:
        """Results of the operators, as `ResultFrame` takes them."""
        small = self.spark.createDataFrame(self._emitted(), self.frame.unpacked_schema)
        if not self.large_results:
            return small
        parts = self.spark.createDataFrame(parts_table(self.large_results))
        large = parts.mapInArrow(self.frame.unpack.run_parts, self.frame.unpacked_schema)
        return small.unionAll(large) if self.results else large

    def table(self) -> pa.Table | None:
        """The query's results in Arrow; None if Spark must compute them, or they are in files."""
        return self.frame.plain(self._emitted()) if self.frame.is_plain and not self.large_results else None

    def _emitted(self) -> pa.Table:
        unpack = self.frame.unpack
        batches = [unpack.identified(frame.batch) for frame in _frames(self.results) if isinstance(frame, Emissions)]
        # A table without any batch cannot go to Spark where a column is nested.
        return pa.Table.from_batches(batches or [empty_batch(unpack.identified_schema)], unpack.identified_schema)

    def side(self) -> Iterator[pa.RecordBatch]:
        """Side rows."""
        large = (part.read(self.frame.access) for part in self.large_side_rows)
        for payloads in (self.side_rows, large):
            yield from (frame.batch for frame in _frames(payloads) if isinstance(frame, SideRows))

    def release(self) -> None:
        """Remove the files. It is not used afterwards."""
        if self.large_results or self.large_side_rows:
            self.remove_files()


def _frames(payloads: Iterable[Blob]) -> Iterator[object]:
    return (frame for payload in payloads for frame in unpack_frames(payload)[0])


class Gathering:
    """Runs the job of each micro-batch."""

    def __init__(
        self, spark: SparkSession, frame: ResultFrame, calls: DriverCalls, remove_files: Callable[[], None]
    ) -> None:
        self._spark, self._frame, self._calls, self._remove_files = spark, frame, calls, remove_files

    def gather(self, packed: DataFrame) -> Gathered:
        """The output of a micro-batch; after this its state is committed."""
        rows = self._calls.collect(packed)

        def small(kind: str) -> list[bytes]:
            return [payload for its, payload in rows if its == kind]

        def large(kind: str) -> list[Part]:
            return [part for payload in small(OVERFLOW) for its, part in parts_in(payload) if its == kind]

        return Gathered(
            self._spark, self._frame, small(REPORT), small(RESULTS), small(SIDE), large(RESULTS), large(SIDE),
            self._remove_files,
        )  # fmt: skip
