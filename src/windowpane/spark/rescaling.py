"""The state of a stopped query for another number of shards, in three Spark jobs.

The first writes the state of all shards to files, the second makes from these the files of each new shard, and the
third is a streaming query of one batch, which writes them into Spark's state. Nothing holds more than a part of a
shard in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from windowpane.errors import InternalError
from windowpane.spark.ending import read_state
from windowpane.spark.entries import ROOT, is_header, pack_root
from windowpane.spark.job_stages import JobStages
from windowpane.spark.merge_stage import OUTPUT, STATE_KEY, STATE_VALUE, state_name
from windowpane.spark.session import shard_ids
from windowpane.spark.shard_state import EntryFiles, make_shard

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_MADE = "step int, shard int, entries bigint, size bigint, seen bigint, taken bigint"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@dataclass(frozen=True)
class ShardSize:
    """A shard of a step: how many entries its state has, how large they are, and how many rows it was given."""

    step: int
    shard: int
    entries: int
    size: int
    seen: int = 0
    """Rows of all shards before."""
    taken: int = 0


@dataclass(frozen=True)
class StateFiles:
    """Where the files of a rescale are: `old` and `new` state, each by step and shard. Picklable."""

    folder: str
    """A path that means the same to all executors, as that of the checkpoint does."""

    def shard(self, kind: str, step: int, shard: int) -> Path:
        return Path(self.folder, kind, str(step), str(shard))

    def old_shards(self, step: int) -> list[int]:
        folder = Path(self.folder, "old", str(step))
        return sorted(int(path.name) for path in folder.iterdir()) if folder.is_dir() else []

    def old_sizes(self, steps: Iterable[int]) -> list[ShardSize]:
        """The shards that were written, numbered in order."""
        found = []
        for step in steps:
            for number, shard in enumerate(self.old_shards(step)):
                entries = EntryFiles(self.shard("old", step, shard))
                found.append(ShardSize(step, number, len(entries.sizes), entries.size()))
        return found


@dataclass(frozen=True)
class WriteEntries:
    """Picklable: `run` writes the entries of a step to files, in a worker."""

    files: StateFiles
    step: int

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shards: dict[int, EntryFiles] = {}
        for batch in batches:
            for shard, name, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if shard not in shards:
                    shards[shard] = EntryFiles(self.files.shard("old", self.step, shard))
                shards[shard].write_stored(name, data)
        yield pa.RecordBatch.from_pydict({"shard": pa.array(list(shards), pa.int32())})


@dataclass(frozen=True)
class MakeShards:
    """Picklable: `run` makes the files of new shards, in a worker. They are numbered through all steps."""

    files: StateFiles
    job: JobStages

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                step, shard = divmod(number, self.job.shards)
                yield pa.RecordBatch.from_pylist([asdict(self.made(step + 1, shard))], _SIZES)

    def made(self, step: int, shard: int) -> ShardSize:
        stored = [EntryFiles(self.files.shard("old", step, each)) for each in self.files.old_shards(step)]
        entries = EntryFiles(self.files.shard("new", step, shard))
        tally = make_shard(self.job, step, shard, stored, entries)
        return ShardSize(step, shard, len(entries.sizes), entries.size(), tally.seen, tally.taken)


_SIZES = pa.schema(
    [
        ("step", pa.int32()), ("shard", pa.int32()), ("entries", pa.int64()), ("size", pa.int64()),
        ("seen", pa.int64()), ("taken", pa.int64()),
    ]
)  # fmt: skip


class StoreShards(StatefulProcessor):
    """Writes the files of new shards into Spark's state. Its rows have a shard, and go on to the next step."""

    def __init__(self, files: StateFiles, job: JobStages, step: int, ids: tuple[int, ...]) -> None:
        self._files, self._job, self._step, self._ids = files, job, step, ids

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState(state_name(self._job, self._step), STATE_KEY, STATE_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        entries = EntryFiles(self._files.shard("new", self._step, self._ids.index(key[0])))
        headers = {name: bytes(entries.read(name)) for name in entries.names() if is_header(name)}
        for name in entries.names():
            if name not in headers:
                self._state.updateValue((name,), (bytes(entries.read(name)),))
        if headers:
            self._state.updateValue((ROOT,), (pack_root(entries.sizes, headers),))
        for row in rows:
            yield Row(**row.asDict())


def divide_state(
    spark: SparkSession, checkpoint: str, job: JobStages, batch_id: int, files: StateFiles
) -> list[ShardSize]:
    """Make the files of all shards of `stages` from the state after a batch; InternalError if a row were lost."""
    steps = range(1, job.last_step + 1)
    with _setting(spark, _ARROW_BYTES, str(64 << 20)):
        for step in steps:
            state = read_state(spark, checkpoint, job, step, batch_id)
            state.mapInArrow(WriteEntries(files, step).run, "shard int").collect()
    count = job.last_step * job.shards
    made = spark.range(0, count, 1, count).mapInArrow(MakeShards(files, job).run, _MADE).collect()
    sizes = [ShardSize(**row.asDict()) for row in sorted(made)]
    for step in steps:
        _check_whole([each for each in sizes if each.step == step])
    return sizes


def _check_whole(shards: list[ShardSize]) -> None:
    """Every row was shown to all shards, and one has taken it."""
    seen, taken = {each.seen for each in shards}, sum(each.taken for each in shards)
    if seen != {taken}:
        raise InternalError("RESCALE", f"the state has {sorted(seen)} rows, and {taken} would be taken over")


def store_state(spark: SparkSession, checkpoint: str, job: JobStages, files: StateFiles) -> None:
    """Write the files of all shards into the state of a new checkpoint, as its first batch."""
    ids = shard_ids(spark, job.shards)
    rows = Path(files.folder, "rows")
    rows.mkdir()
    (rows / "shards.json").write_text("".join(json.dumps({"shard": each}) + "\n" for each in ids))
    listed = spark.readStream.schema("shard int").json(str(rows))
    packed = listed.selectExpr("shard", "0 AS origin", "'' AS kind", "CAST('' AS BINARY) AS payload")
    for step in range(1, job.last_step + 1):
        stage = StoreShards(files, job, step, ids)
        packed = packed.groupBy("shard").transformWithState(stage, OUTPUT, "Append", "None")
    # Only a snapshot can be read without the versions before.
    with _setting(spark, _CHANGELOG, "false"):
        writer = packed.writeStream.outputMode("append").format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """A setting of the session for a while."""
    before = str(spark.conf.get(name))
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)
