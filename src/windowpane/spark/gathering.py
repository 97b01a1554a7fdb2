"""The output of the merge stage in one micro-batch, on the driver or in the cluster.

Results are small next to the rows that they summarize. Their payloads therefore come to the driver with the reports of
the shards, in the one job that the batch needs anyway. If a payload is too big for that, everything stays cached in the
cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.core.aggregation import empty_batch
from windowpane.core.frames import Emissions, SideRows
from windowpane.core.wire import unpack_frames
from windowpane.spark.merge_stage import REPORT, RESULTS, SIDE
from windowpane.spark.outputs import ResultFrame

DRIVER_BYTES = 16 * 1024 * 1024
"""The largest payload that comes to the driver; a shard has one for its results, and few for its side rows."""


class Gathered(Protocol):
    """A micro-batch's output."""

    @property
    def reports(self) -> Sequence[bytes]:
        """Payloads of all shards' reports."""

    def emissions(self) -> DataFrame:
        """Results of the operators, as `ResultFrame` takes them."""

    def table(self) -> pa.Table | None:
        """The query's results in Arrow; None if Spark must compute them."""

    def side(self) -> Iterator[pa.RecordBatch]:
        """Side rows."""

    def release(self) -> None:
        """Free what it holds. It is not used afterwards."""


@dataclass(frozen=True)
class OnDriver:
    """Payloads in this process."""

    spark: SparkSession
    frame: ResultFrame
    reports: Sequence[bytes]
    results: Sequence[bytes]
    side_rows: Sequence[bytes]

    def emissions(self) -> DataFrame:
        return self.spark.createDataFrame(self._emitted(), self.frame.unpacked_schema)

    def table(self) -> pa.Table | None:
        return self.frame.plain(self._emitted()) if self.frame.is_plain else None

    def _emitted(self) -> pa.Table:
        unpack = self.frame.unpack
        batches = [unpack.identified(frame.batch) for frame in _frames(self.results) if isinstance(frame, Emissions)]
        # A table without any batch cannot go to Spark where a column is nested.
        return pa.Table.from_batches(batches or [empty_batch(unpack.identified_schema)], unpack.identified_schema)

    def side(self) -> Iterator[pa.RecordBatch]:
        return (frame.batch for frame in _frames(self.side_rows) if isinstance(frame, SideRows))

    def release(self) -> None:
        pass


@dataclass(frozen=True)
class InCluster:
    """Payloads where they were made, cached."""

    packed: DataFrame
    frame: ResultFrame
    reports: Sequence[bytes]

    def emissions(self) -> DataFrame:
        return self.frame.unpacked(self.packed)

    def table(self) -> pa.Table | None:
        return None

    def side(self) -> Iterator[pa.RecordBatch]:
        payloads = self.packed.where(f"kind = '{SIDE}'").select("payload").toLocalIterator()
        return (
            frame.batch for row in payloads for frame in _frames([bytes(row["payload"])]) if isinstance(frame, SideRows)
        )

    def release(self) -> None:
        self.packed.unpersist()


def _frames(payloads: Iterable[bytes]) -> list[object]:
    return [frame for payload in payloads for frame in unpack_frames(payload)[0]]


class Gathering:
    """Runs the job of each micro-batch. Remembers when payloads were too big, and then does not try again."""

    driver_bytes = DRIVER_BYTES

    def __init__(self, spark: SparkSession, frame: ResultFrame) -> None:
        self._spark, self._frame = spark, frame
        self._in_cluster = False

    def gather(self, packed: DataFrame) -> Gathered:
        """The output of a micro-batch; after this its state is committed."""
        if not self._in_cluster:
            fits = f"CASE WHEN kind = '{REPORT}' OR length(payload) <= {self.driver_bytes} THEN payload END AS payload"
            rows = [(row["kind"], row["payload"]) for row in packed.selectExpr("kind", fits).collect()]
            if all(payload is not None for _, payload in rows):
                by_kind = {
                    kind: [bytes(payload) for its, payload in rows if its == kind] for kind in (REPORT, RESULTS, SIDE)
                }
                return OnDriver(
                    self._spark, self._frame, reports=by_kind[REPORT], results=by_kind[RESULTS], side_rows=by_kind[SIDE]
                )
        self._in_cluster = True
        packed = packed.persist()
        reports = packed.where(f"kind = '{REPORT}'").select("payload").collect()
        return InCluster(packed, self._frame, [bytes(row["payload"]) for row in reports])
