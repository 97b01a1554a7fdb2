"""The Delta Lake sink. A commit has a batch's rows and its number, as a transaction of the writing application."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from windowpane.connectors.hadoop import hadoop_path, session_access
from windowpane.connectors.sinks import EMIT_EPOCH, SinkBatch, SinkSettings
from windowpane.connectors.table_sinks.rows import (
    BATCH,
    KEY,
    is_new,
    large_rows,
    latest,
    latest_large,
    small_rows,
)
from windowpane.connectors.table_sinks.table_sink import TableSink, batch_number, batches_in, writer_of
from windowpane.remote.access import Access
from windowpane.remote.delta import storage_options
from windowpane.remote.optional_packages import optional_module

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_CREATED = "-created"
"""Behind the name of the writer that has made the table."""
_PARTITION = re.compile(r"([^/=]+)=([^/]*)/")
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ON_KEY = " AND ".join(f"t.{column} = s.{column}" for column in KEY)


class DeltaSink(TableSink["DeltaTable"]):
    """A folder with a Delta table, on a local disk or in an object store."""

    def __init__(self, name: str, path: str, options: Mapping[str, str], mode: str | None = None) -> None:
        self._partitions = [column.strip() for column in options.get("partition_by", "").split(",") if column.strip()]
        super().__init__(name, path, mode, self._partitions)
        self._delta = deltalake()
        raised = self._delta.exceptions
        self.lasting = (raised.SchemaMismatchError, raised.DeltaProtocolError, pa.ArrowException)
        self._compact_every = int(options.get("compact_every", "0"))
        self._path, self._options = path, dict[str, str]()

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> DeltaSink:
        assert settings.path is not None, "checked when the configuration was loaded"
        return cls(name, settings.path, settings.options, settings.mode)

    def open(self, spark: SparkSession, *, identified: bool) -> None:
        super().open(spark, identified=identified)
        self.use(session_access(spark))

    def use(self, access: Access) -> None:
        self._options = storage_options(self._path, access)

    def _load(self) -> DeltaTable | None:
        tables = self._delta.DeltaTable
        if not tables.is_deltatable(self._path, self._options or None):
            return None
        table: DeltaTable = tables(self._path, storage_options=self._options or None)
        return table

    def _last_number(self, table: DeltaTable, batch: SinkBatch) -> int | None:
        return table.transaction_version(writer_of(batch))

    def _commit(self, table: DeltaTable | None, batch: SinkBatch, *, undo: bool, replacing: bool) -> None:
        if undo and table is not None:
            table.delete(f"{BATCH} = '{batch.identity}'")
        writer = writer_of(batch)
        created = table is None or table.transaction_version(writer + _CREATED) is not None
        noted = {writer: batch_number(batch)} | ({writer + _CREATED: 0} if table is None else {})
        properties = self._properties(noted)
        merges = replacing and self.merges_all(created_by_run=created)
        if batch.large:
            self._commit_large(table, batch, properties, replacing=replacing, merges=merges)
        else:
            rows = latest(small_rows(batch)) if replacing else small_rows(batch)
            batch.check_lease()
            if table is not None and (merges or (replacing and not is_new(rows))):
                self._merge(table, rows, properties)
            else:
                self._append(table, rows, properties)
        if self._compact_every and (batch.batch_id + 1) % self._compact_every == 0:
            self._compact()

    def _properties(self, noted: Mapping[str, int]) -> CommitProperties:
        transactions = [self._delta.Transaction(app, number) for app, number in noted.items()]
        properties: CommitProperties = self._delta.CommitProperties(app_transactions=transactions)
        return properties

    def _append(self, table: DeltaTable | None, rows: pa.Table, properties: CommitProperties) -> None:
        self._delta.write_deltalake(
            table if table is not None else self._path, rows, mode="append", schema_mode="merge",
            partition_by=self._partitions or None, commit_properties=properties,
            storage_options=self._options or None if table is None else None,
        )  # fmt: skip

    def _merge(self, table: DeltaTable, rows: Any, properties: CommitProperties) -> None:
        merge = table.merge(
            rows, _ON_KEY, source_alias="s", target_alias="t", merge_schema=True, commit_properties=properties
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _commit_large(
        self, table: DeltaTable | None, batch: SinkBatch, properties: CommitProperties, *, replacing: bool, merges: bool
    ) -> None:
        """Executors write files into the table's folder, which this commit then makes part of the table."""
        rows = latest_large(large_rows(batch)) if replacing else large_rows(batch)
        if table is not None and (merges or (replacing and not rows.where(f"{EMIT_EPOCH} > 1").isEmpty())):
            batch.check_lease()
            self._merge(table, rows.toArrow(), properties)
            return
        if table is None:
            self._append(None, rows.limit(0).toArrow(), self._properties({}))
            table = self._load()
            assert table is not None
        schema = self._delta.Schema.from_arrow(rows.limit(0).toArrow().schema)
        there = {column.name.lower() for column in table.schema().fields}
        gained = [column for column in schema.fields if column.name.lower() not in there]
        folder = f"windowpane-{uuid.uuid4().hex}"
        rows.write.partitionBy(*self._partitions).parquet(f"{self._path}/{folder}")
        actions = self._add_actions(rows, folder)
        batch.check_lease()
        if gained:  # The commit of the files would leave out their new columns.
            table.alter.add_columns(gained)
        table.create_write_transaction(
            actions, "append", schema, partition_by=self._partitions or None, commit_properties=properties
        )

    def _add_actions(self, rows: DataFrame, folder: str) -> list[Any]:
        add = import_module("deltalake.transaction").AddAction
        place, files = hadoop_path(rows.sparkSession, f"{self._path}/{folder}")
        root, found = place.getParent().toUri().getPath(), []
        listed = files.listFiles(place, True)
        while listed.hasNext():
            status = listed.next()
            path = status.getPath().toUri().getPath().removeprefix(root).lstrip("/")
            if path.endswith(".parquet"):
                found.append(
                    add(path, status.getLen(), partition_values(path), status.getModificationTime(), True, "{}")
                )
        return found

    def _compact(self) -> None:
        table = self._load()
        if table is not None:
            table.optimize.compact()

    def _delete_after(self, table: DeltaTable, prefix: str, after: int) -> int:
        return int(table.delete(batches_in(prefix, after))["num_deleted_rows"])

    def _read(self, prefix: str | None) -> pa.Table | None:
        table = self._load()
        if table is None:
            return None
        rows = table.to_pyarrow_dataset()
        named = ds.field(BATCH)
        return rows.to_table(filter=(named >= prefix) & (named < f"{prefix}~") if prefix is not None else None)


def partition_values(path: str) -> dict[str, str | None]:
    """`day=2024-05-01/…`: as Spark writes partitioned files."""
    found = {unquote(name): unquote(value) for name, value in _PARTITION.findall(path)}
    return {name: None if value == _NULL_PARTITION else value for name, value in found.items()}


def deltalake() -> Any:
    """The package; ConfigError if it is not installed."""
    optional_module("deltalake.exceptions", "Delta tables", extra="delta")
    return optional_module("deltalake", "Delta tables", extra="delta")
