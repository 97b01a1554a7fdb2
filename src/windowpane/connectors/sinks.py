"""What a sink is, and the sinks that need no module.

Every micro-batch has an id. A replayed batch has the same id and the same rows. `Sink.delivery` declares whether a sink
then keeps one copy. `windowpane.formats.SINKS` registers sinks by name.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Row, SparkSession

from windowpane.connectors.read_back import ORDER, ReadBack, Written
from windowpane.errors import ConfigError, SinkError, gist
from windowpane.remote.access import Access

WINDOW_ID, GROUP_KEY, EMIT_EPOCH, IS_FINAL = IDENTITY = ("_window_id", "_group_key", "_emit_epoch", "_is_final")
"""Columns that identify an emission, for sinks with `wants_identity`. The group key is canonical JSON."""

WHOLE_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark's options for complete JSON: by default, Spark omits NULLs and truncates times to milliseconds."""
WHOLE_JSON_SQL = "map(" + ", ".join(f'"{name}", "{value}"' for name, value in WHOLE_JSON.items()) + ")"
"""The same in SQL."""

Delivery: TypeAlias = Literal["exactly_once", "at_least_once"]
WorkerFunction: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Picklable: what workers run over the Arrow batches of a task."""


def unguarded() -> None:
    """Stands for the check of a lease where there is none."""


@dataclass(frozen=True)
class SinkBatch:
    """The rows of one micro-batch. `side_records`: they are side records, JSON in one column `value`."""

    batch_id: int
    build: Callable[[], DataFrame]
    side_records: bool = False
    transform: str = ""
    """The transform of the batch: a sink may serve several, and both results and side rows of one."""
    table: pa.Table | None = None
    """The rows in Arrow if they are on the driver already."""
    identified: bool = False
    """The frame has the columns IDENTITY after those of the query. Rows without groups have no identity."""
    rows: int = 0
    """An upper bound of the number of rows."""
    run: str = ""
    """Identifies the checkpoint: a new one counts its batches from 0 again."""
    final: bool = False
    """The last batch of a graceful end. If the end is interrupted, another batch gets the same id."""
    fence: int = 0
    """The number of this process among those that have held the checkpoint's lease: the highest one writes."""
    check_lease: Callable[[], None] = unguarded
    """To be called before rows become visible. Raises StateError once another process has taken over."""
    large: bool = False
    """The rows may be too many for the driver's memory."""
    replaces: bool = False
    """These rows take the place of those that an earlier batch of the same identity has written: a backfill again."""
    was_unnamed: bool = False
    """An earlier version may have written this batch, to files without the run in their names."""
    read_in_workers: Callable[[WorkerFunction, str], DataFrame] | None = None
    """As `in_workers`, for rows that workers read themselves."""

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame, planned when a sink first asks for it."""
        return self.build()

    def arrow(self) -> pa.Table:
        """The rows in Arrow, in this process."""
        return self.table if self.table is not None else self.frame.toArrow()

    def in_workers(self, run: WorkerFunction, schema: str) -> DataFrame:
        """What `run`, a function for workers, makes of the rows. Rows in files of the shards do not pass the JVM."""
        return self.read_in_workers(run, schema) if self.read_in_workers else self.frame.mapInArrow(run, schema)

    @property
    def identity(self) -> str:
        """Sorts by batch. A replayed batch has the same identity; no other batch of any checkpoint has it."""
        return f"{self._whose}-{self.run}-{self.batch_id:012}" if self.run else self.unnamed

    @property
    def unnamed(self) -> str:
        """The same without the run, as earlier versions named files."""
        return f"{self._whose}-{self.batch_id:012}"

    @property
    def _whose(self) -> str:
        return f"{self.transform}{'.side' if self.side_records else ''}"


@dataclass(frozen=True)
class SinkSettings:
    """`[sinks.NAME]`, checked, with the path resolved."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None
    delivery: Delivery | None = None
    """What the pipeline asks for, of a sink that lets it choose."""


class Sink(abc.ABC):
    """Called by the runtime on the driver: `write` once per micro-batch that has rows, in order of batch ids.

    `write` must have made the rows durable when it returns, and must accept a batch again. It raises SinkError, or
    whatever its client raises, when it fails. The runtime retries; then the results wait in the checkpoint, or the
    pipeline stops if the error would occur again. The runtime checks the lease before `write`; a sink that prepares for
    long calls `check_lease` of the batch before rows become visible.
    """

    delivery: Delivery = "at_least_once"
    """What happens to a batch that is written again: exactly_once keeps one copy."""
    wants_identity = False
    """Whether results should have the columns of IDENTITY, if they have an identity."""
    record_errors: tuple[type[BaseException], ...] = ()
    """What the client raises because of a record in the batch: trying again does not help, a shorter record may."""
    record_messages: re.Pattern[str] = re.compile(
        r"RecordTooLargeException|RecordBatchTooLargeException|"
        r"spark\.rpc\.message\.maxSize|spark\.driver\.maxResultSize"
    )
    """The same as text of an error: of Kafka, and of Spark where records do not fit into its messages."""
    can_wait = True
    """Whether results wait in the checkpoint while the sink is away. `write` may then be called by another thread than
    that of the micro-batches, never by both at the same time."""
    retries = 0
    """How often a write was tried again, so far."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def place(self) -> str | None:
        """The folder or table that it writes to, for messages."""
        return None

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> Sink:  # noqa: ARG003  # for sinks with settings
        """A sink of the pipeline's configuration."""
        return cls(name)

    def refuses_record(self, failed: BaseException | None) -> bool:
        """Whether a write failed because of a record in the batch."""
        while failed is not None:
            if isinstance(failed, self.record_errors) or self.record_messages.search(str(failed)):
                return True
            failed = failed.__cause__
        return False

    def open(self, spark: SparkSession, *, identified: bool) -> None:  # noqa: B027  # most sinks need nothing
        """Called before the first batch. Raises ConfigError for mistakes that a retry would not fix.

        `identified`: results have an identity, so that one can replace another.
        """

    def check(self, columns: Sequence[str]) -> None:  # noqa: B027  # most sinks find mistakes when they write
        """Called before the first batch, after `open`, with the names of the columns that results will have.

        Raises ConfigError or SinkError for mistakes that a retry would not fix, and SinkError with `passing` if the
        sink is away.
        """

    def for_backfill(self, run: str, *, identified: bool) -> Sink | None:
        """The sink that takes the results of a backfill beside those of the stream.

        A backfill of the same `run` again replaces what it has written. `identified`: results have an identity. None:
        results would be there twice.
        """
        return None

    def read_back(self, expected: DataFrame, written: Written) -> ReadBack | None:
        """What the stream has written, beside the results of a batch; None if the sink cannot be read.

        `expected` has the columns IDENTITY if the sink wants them and results have an identity.
        """
        return None

    def side_records(self, spark: SparkSession, written: Written) -> list[str] | None:
        """The side records of a transform as JSON; None if the sink cannot be read."""
        return None

    def take_back(self, access: Access, *, runs: Sequence[str], transform: str, side: bool, after: int) -> int:
        """Remove the rows that these runs of a transform have written in batches after `after`; gives their number.

        For formats that take back rows (`SinkFormat.takes_back`), without `open`. `side`: side rows, not results.
        """
        raise NotImplementedError(self.name)

    def count_rows(self, access: Access, *, runs: Sequence[str], transform: str, side: bool) -> dict[int, int] | None:
        """How many rows that these runs of a transform have written are there, by batch; None if it cannot be told.

        Without `open`. `side`: side rows, not results. Rows that later ones have replaced are gone.
        """
        return None

    def read_side(self, access: Access, *, runs: Sequence[str], transform: str) -> list[tuple[int, str]] | None:
        """The side records of these runs of a transform as JSON, each with its batch; None if they cannot be read.

        Without `open`. The batch is -1 where the sink no longer knows it.
        """
        return None

    @abc.abstractmethod
    def write(self, batch: SinkBatch) -> None:
        """Write the rows of one micro-batch."""

    def close(self) -> None:  # noqa: B027  # most sinks hold nothing
        """Called when the pipeline ends."""


def check_mode(sink: Sink, mode: str | None, *, identified: bool) -> None:
    """ConfigError if rows are to replace others and have no identity."""
    if mode == "update" and not identified:
        raise ConfigError(
            "UPDATE_WITHOUT_GROUPS",
            f"sink `{sink.name}` has mode `update`, but its rows are not grouped, so no row can replace another",
            'remove it, or write mode = "append"', key=f"sinks.{sink.name}.mode",
        )  # fmt: skip


class MemorySink(Sink):
    """Keeps rows in this process, by batch, for notebooks and tests."""

    delivery = "exactly_once"
    can_wait = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._batches: dict[tuple[int, str], list[Row]] = {}

    def for_backfill(self, run: str, *, identified: bool) -> MemorySink:
        return self

    def write(self, batch: SinkBatch) -> None:
        self._batches[batch.batch_id, batch.identity] = batch.frame.collect()

    def read_back(self, expected: DataFrame, written: Written) -> ReadBack:
        emitted = expected.sparkSession.createDataFrame(
            self._of(f"{written.transform}-{written.run}-"), expected.schema
        )
        return ReadBack(expected.toArrow(), _numbered(emitted.toArrow()))

    def side_records(self, spark: SparkSession, written: Written) -> list[str]:
        return [str(row[0]) for row in self._of(f"{written.transform}.side-{written.run}-")]

    def _of(self, identity: str) -> list[Row]:
        return [row for key in sorted(self._batches) if key[1].startswith(identity) for row in self._batches[key]]

    @property
    def rows(self) -> list[Row]:
        """All rows so far, in order of their batches."""
        return [row for batch_id in sorted(self._batches) for row in self._batches[batch_id]]


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(ORDER, pa.array(range(rows.num_rows), pa.int64()))


class CallableSink(Sink):
    """Calls a Python function with each batch's DataFrame and id, as Spark's foreachBatch does."""

    can_wait = False  # an error is one of its code

    def __init__(self, name: str, function: Callable[[DataFrame, int], object]) -> None:
        super().__init__(name)
        self._function = function

    def write(self, batch: SinkBatch) -> None:
        self._function(batch.frame, batch.batch_id)


class SparkFormatSink(Sink):
    """Any batch format that Spark can write, by name. A replayed batch is appended again: at least once."""

    def __init__(self, name: str, format_name: str, path: str | None, options: Mapping[str, str]) -> None:
        super().__init__(name)
        self._format, self._path, self._options = format_name, path, options

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> SparkFormatSink:
        return cls(name, settings.format, settings.path, settings.options)

    def open(self, spark: SparkSession, *, identified: bool) -> None:
        """ConfigError if neither Spark nor its jars know the format."""
        session: Any = spark._jsparkSession  # noqa: SLF001  # no Python API looks up a format without using it
        state, jvm = session.sessionState(), cast("Any", spark)._jvm  # noqa: SLF001
        if state.dataSourceManager().dataSourceExists(self._format):
            return
        try:
            jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(self._format, state.conf())
        except Py4JJavaError as unknown:
            if "DATA_SOURCE_NOT_FOUND" in str(unknown):
                raise ConfigError(
                    "UNKNOWN_FORMAT", f"sink `{self.name}`: Spark knows no format `{self._format}`",
                    "correct the name, or name the package that has it in [spark] packages or jars",
                    key=f"sinks.{self.name}.format",
                ) from unknown  # fmt: skip

    def write(self, batch: SinkBatch) -> None:
        writer = batch.frame.write.format(self._format).mode("append").options(**self._options)
        try:
            writer.save(self._path) if self._path else writer.save()
        except Exception as failed:
            raise SinkError("SINK_WRITE", f"sink `{self.name}` ({self._format}): {gist(failed)}") from failed
