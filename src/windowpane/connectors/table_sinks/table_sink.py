"""What sinks of Delta Lake and Iceberg have in common: how a batch is written once.

A table remembers, in the same commit as the rows, the number of the last batch of each run that has written to it. A
batch that comes again finds its number there and is skipped.
"""

from __future__ import annotations

import abc
import copy
import re
from collections import Counter
from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.connectors.read_back import ReadBack, Written
from windowpane.connectors.sinks import Sink, SinkBatch, check_mode
from windowpane.connectors.table_sinks.rows import BATCH, RECORD, batch_prefix, compared
from windowpane.errors import ConfigError, SinkError, StateError, gist
from windowpane.remote.access import Access

Table = TypeVar("Table")


class TableSink(Sink, Generic[Table]):
    """Writes to one table, which it creates if necessary. `mode` None: update if rows have an identity, else append."""

    delivery = "exactly_once"
    wants_identity = True
    lasting: tuple[type[BaseException], ...] = ()
    """What the library raises if another attempt would fail too."""
    lasting_messages = re.compile(r"(?:Cast|Schema) error|Invalid data type")
    """The same as text of an error."""

    def __init__(self, name: str, shown: str, mode: str | None, partitions: Sequence[str] = ()) -> None:
        """`partitions`: columns by which the table is partitioned."""
        super().__init__(name)
        self._shown, self._mode, self._partition_columns = shown, mode, partitions
        self._backfills = False

    @property
    def place(self) -> str:
        return self._shown

    def open(self, spark: SparkSession, *, identified: bool) -> None:
        check_mode(self, self._mode, identified=identified)
        self._spark = spark

    def check(self, columns: Sequence[str]) -> None:
        """See whether the table, or the place where it will be, can be reached."""
        unknown = [column for column in self._partition_columns if column not in columns]
        if unknown:
            raise ConfigError(
                "UNKNOWN_COLUMN", f"sink `{self.name}`: results have no column {', '.join(unknown)} to partition by",
                f"valid: {', '.join(columns)}", key=f"sinks.{self.name}.options.partition_by",
            )  # fmt: skip
        try:
            self._load()
        except Exception as failed:
            raise self._failed(failed, "cannot reach") from failed

    def write(self, batch: SinkBatch) -> None:
        try:
            batch.check_lease()
            self._write(batch)
        except (StateError, SinkError):
            raise
        except Exception as failed:
            raise self._failed(failed, "could not write to") from failed

    def _failed(self, failed: Exception, what: str) -> SinkError:
        if isinstance(failed, SinkError):
            return failed
        message = f"sink `{self.name}` {what} table {self._shown}: {gist(failed)}"
        lasts = isinstance(failed, self.lasting) or self.lasting_messages.search(str(failed)) is not None
        return SinkError("SINK_WRITE", message, passing=not lasts)

    def _write(self, batch: SinkBatch) -> None:
        table = self._load()
        before = written_before(batch, self._last_number(table, batch) if table is not None else None)
        if before != "same":
            self._commit(table, batch, undo=before == "other", replacing=self.replaces(batch))

    def replaces(self, batch: SinkBatch) -> bool:
        """Whether rows replace earlier ones of their window and group."""
        return batch.identified and self._mode != "append"

    def merges_all(self, *, created_by_run: bool) -> bool:
        """Whether rows of the same window and group may be in the table although they are emitted for the first time.

        They cannot if this run has made the table: then only corrections of its own results replace rows.
        """
        return self._backfills or not created_by_run

    def for_backfill(self, run: str, *, identified: bool) -> TableSink[Table] | None:
        """The same table: rows of equal window and group are replaced. Others would be there twice."""
        if not identified or self._mode == "append":
            return None
        beside = copy.copy(self)
        beside._backfills = True  # noqa: SLF001  # a copy of this one
        return beside

    def take_back(self, access: Access, *, runs: Sequence[str], transform: str, side: bool, after: int) -> int:
        self.use(access)
        table = self._load()
        whose = [Written(transform, run) for run in runs]
        return sum(self._delete_after(table, batch_prefix(each, side=side), after) for each in whose) if table else 0

    def count_rows(self, access: Access, *, runs: Sequence[str], transform: str, side: bool) -> dict[int, int]:
        self.use(access)
        counts: Counter[int] = Counter()
        try:
            for run in runs:
                found = self._read(batch_prefix(Written(transform, run), side=side))
                for each in [] if found is None else found[BATCH].value_counts().to_pylist():
                    counts[int(str(each["values"]).rpartition("-")[2])] += each["counts"]
        except Exception as failed:
            raise self._failed(failed, "cannot read") from failed
        return dict(counts)

    def read_side(self, access: Access, *, runs: Sequence[str], transform: str) -> list[tuple[int, str]]:
        self.use(access)
        lines: list[tuple[int, str]] = []
        try:
            for run in runs:
                found = self._read(batch_prefix(Written(transform, run), side=True))
                if found is not None:
                    batches = (int(str(name).rpartition("-")[2]) for name in found[BATCH].to_pylist())
                    lines += zip(batches, found[RECORD].to_pylist(), strict=True)
        except Exception as failed:
            raise self._failed(failed, "cannot read") from failed
        return lines

    def use(self, access: Access) -> None:  # for tables in object stores
        """How an object store is reached."""

    def read_back(self, expected: DataFrame, written: Written) -> ReadBack:
        """All rows if results replace each other, else those of the run."""
        whole = expected.toArrow()
        found = self._read(batch_prefix(written) if self._mode == "append" else None)
        return compared(whole, found) if found is not None else ReadBack(whole, whole.slice(0, 0))

    def side_records(self, spark: SparkSession, written: Written) -> list[str]:
        found = self._read(batch_prefix(written, side=True))
        return found[RECORD].to_pylist() if found is not None else []

    @abc.abstractmethod
    def _load(self) -> Table | None:
        """The table as it is now; None if it does not exist."""

    @abc.abstractmethod
    def _last_number(self, table: Table, batch: SinkBatch) -> int | None:
        """The number of the last batch that the run and transform of `batch` have written."""

    @abc.abstractmethod
    def _commit(self, table: Table | None, batch: SinkBatch, *, undo: bool, replacing: bool) -> None:
        """Write the rows and `batch_number`. `undo`: first remove the rows that have the identity of this batch."""

    @abc.abstractmethod
    def _delete_after(self, table: Table, prefix: str, after: int) -> int:
        """Remove the rows of batches whose names begin with `prefix` and whose ids are above `after`; their number."""

    @abc.abstractmethod
    def _read(self, prefix: str | None) -> pa.Table | None:
        """The rows of the batches whose names begin with `prefix`, or all; None if there is no table."""


def written_before(batch: SinkBatch, last: int | None) -> Literal["no", "same", "other"]:
    """Whether a table has this batch already. `last`: the number of the last batch that the table has of the run.

    Another batch of the same id belongs to a graceful end that was interrupted, or to an earlier run of a backfill.
    """
    number = batch_number(batch)
    if last is not None and last // 2 == batch.batch_id and (last != number or batch.replaces):
        return "other"
    return "same" if last is not None and last >= number else "no"


def batch_number(batch: SinkBatch) -> int:
    """Grows with the batches of a run. The last batch of a graceful end has another number than one that is not."""
    return 2 * batch.batch_id + batch.final


def writer_of(batch: SinkBatch) -> str:
    """Whose batches are counted together."""
    return f"windowpane-{batch.identity.rpartition('-')[0]}"


def batches_in(prefix: str, after: int | None = None) -> str:
    """A condition for the batches whose names begin with `prefix`, and whose ids are above `after`, if given."""
    first = f"{BATCH} >= '{prefix}'" if after is None else f"{BATCH} > '{prefix}{after:012}'"
    return f"{first} AND {BATCH} < '{prefix}~'"
