"""The sink of the benchmarks: takes the results and forgets them, as Spark's `noop` and Flink's `blackhole` do."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from windowpane.connectors.sinks import Sink, SinkBatch


class Discard(Sink):
    """Forgets rows where they are: on the driver, in the workers that read them from files, or in Spark's tasks."""

    def write(self, batch: SinkBatch) -> None:
        if batch.read_in_workers is not None:
            batch.in_workers(_counted, "rows long").collect()
        elif batch.table is None:
            batch.frame.write.format("noop").mode("append").save()


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"rows": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})
