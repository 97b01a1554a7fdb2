"""Results on their way through the outbox of a sink: from a batch for the sink to files, and back.

Small results pass through the driver. Large ones are written and read by the executors.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from windowpane.checkpoint.result_outbox import ResultOutbox, ResultPart, WaitingResults
from windowpane.checkpoint.run_lock import RunLock
from windowpane.connectors.sinks import SinkBatch
from windowpane.remote.access import Access
from windowpane.remote.input_file import InputFile
from windowpane.remote.objects import client, is_object_store, key_of, obstore_module

_WRITTEN = "number int, name string, rows long, size long"
_ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True)
class ResultFiles:
    """For one sink of one transform."""

    spark: SparkSession
    transform: str
    outbox: ResultOutbox
    lock: RunLock
    access: Access
    runs: Callable[[], Sequence[str]]
    """The identities under which this checkpoint has written, the present one last."""

    def keep(self, batch: SinkBatch) -> WaitingResults:
        """The rows of a batch, in this process or in files that executors have written."""
        folder = self.outbox.parts_folder() if batch.large else None
        table = batch.arrow() if folder is None else pa.table({})
        return WaitingResults(
            batch_id=batch.batch_id, since_us=time.time_ns() // 1000, columns=batch.frame.schema.json(), run=batch.run,
            identified=batch.identified, was_unnamed=batch.was_unnamed, table=table,
            parts=() if folder is None else self._written(batch, folder),
        )  # fmt: skip

    def _written(self, batch: SinkBatch, folder: str) -> tuple[ResultPart, ...]:
        writer = PartWriter(folder, self.outbox.part_prefix(batch.batch_id), self.access)
        found = sorted(batch.in_workers(writer.run, _WRITTEN).collect(), key=lambda row: int(row.number))
        return tuple(ResultPart(name=row.name, rows=row.rows, size=row.size) for row in found)

    def batch(self, waiting: WaitingResults) -> SinkBatch:
        """What the sink is to write: the same rows under the same id as when it was away."""
        columns = StructType.fromJson(json.loads(waiting.columns))
        read = partial(self._read, waiting, columns) if waiting.parts else None
        return SinkBatch(
            waiting.batch_id, read or partial(self.spark.createDataFrame, waiting.table, columns),
            transform=self.transform, table=None if read else waiting.table, identified=waiting.identified,
            rows=waiting.rows, run=self._run(waiting), was_unnamed=waiting.was_unnamed, large=read is not None,
            fence=self.lock.fence, check_lease=self.lock.check,
        )  # fmt: skip

    def _run(self, waiting: WaitingResults) -> str:
        """A checkpoint that was made from a savepoint of another one delivers what waits as its own."""
        runs = self.runs()
        return waiting.run if waiting.run in runs else runs[-1]

    def _read(self, waiting: WaitingResults, columns: StructType) -> DataFrame:
        folder = self.outbox.parts_folder()
        paths = pa.table({"path": [f"{folder}/{part.name}" for part in waiting.parts]})
        return self.spark.createDataFrame(paths).mapInArrow(PartReader(self.access).run, columns)


@dataclass(frozen=True)
class PartWriter:
    """Picklable: `run` writes the rows of a task to a file, and gives its number, name, rows and bytes."""

    folder: str
    prefix: str
    access: Access

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        # Another attempt at the task may run at the same time: it writes another file.
        name, rows = f"{self.prefix}{uuid.uuid4().hex}.arrow", 0
        with self._opened(name) as file:
            with pa.ipc.new_file(file, first.schema, options=_ZSTD) as writer:
                for batch in chain([first], batches):
                    writer.write_batch(batch)
                    rows += batch.num_rows
            file.flush()
            size = file.tell()
            if is_object_store(self.folder):
                file.seek(0)
                obstore_module().put(client(self.folder, self.access), key_of(f"{self.folder}/{name}"), file)
        task = TaskContext.get()
        assert task is not None, "Spark runs this"
        yield pa.RecordBatch.from_pydict(
            {
                "number": pa.array([task.partitionId()], pa.int32()),
                "name": [name],
                "rows": pa.array([rows], pa.int64()),
                "size": pa.array([size], pa.int64()),
            }
        )

    def _opened(self, name: str) -> IO[bytes]:
        if is_object_store(self.folder):
            return tempfile.TemporaryFile()
        mode = Path(self.folder).stat().st_mode & 0o666
        return os.fdopen(os.open(f"{self.folder}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb")


@dataclass(frozen=True)
class PartReader:
    """Picklable: `run` gives the rows of the files that its task is given."""

    access: Access

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                with InputFile(path, self.access).random_access() as file:
                    found = pa.ipc.open_file(file)
                    for number in range(found.num_record_batches):
                        yield found.get_batch(number)
