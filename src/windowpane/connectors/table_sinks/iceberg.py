"""The Iceberg sink. A commit to the catalog has a batch's rows and its number, as a property of the table."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from windowpane.connectors.hadoop import hadoop_path
from windowpane.connectors.sinks import EMIT_EPOCH, SinkBatch, SinkSettings
from windowpane.connectors.table_sinks.rows import BATCH, KEY, is_new, large_rows, latest, latest_large, small_rows
from windowpane.connectors.table_sinks.table_sink import TableSink, batch_number, batches_in, writer_of
from windowpane.errors import ConfigError
from windowpane.remote.optional_packages import optional_module

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction

CATALOG = "catalog."
"""How options that the catalog gets begin."""
_CREATED_BY = "windowpane-created-by"
_PARTITION = re.compile(r"(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?)?(\w+)\s*\)?")
Change: TypeAlias = "Callable[[Transaction], object]"
"""What a batch does to the table, besides noting its number."""


class IcebergSink(TableSink["Table"]):
    """A table of a catalog: REST, SQL, Glue, Hive or whatever pyiceberg knows."""

    def __init__(self, name: str, options: Mapping[str, str], mode: str | None = None) -> None:
        self._partitions = partition_fields(name, options.get("partition_by", ""))
        super().__init__(name, options["table"], mode, [column for column, *_ in self._partitions])
        self._iceberg = pyiceberg()
        raised = import_module("pyiceberg.exceptions")
        self.lasting = (
            raised.ValidationError, raised.NoSuchNamespaceError, raised.UnauthorizedError, raised.ForbiddenError,
            pa.ArrowException, ValueError, NotImplementedError,
        )  # fmt: skip
        self._identifier = tuple(options["table"].split("."))
        self._settings = {
            option.removeprefix(CATALOG): value for option, value in options.items() if option.startswith(CATALOG)
        }
        self._opened: Catalog | None = None

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> IcebergSink:
        return cls(name, settings.options, settings.mode)

    @property
    def _catalog(self) -> Catalog:
        if self._opened is None:
            settings = dict(self._settings)
            self._opened = self._iceberg.load_catalog(settings.pop("name", "default"), **settings)
        return self._opened

    def _load(self) -> Table | None:
        if not self._catalog.table_exists(self._identifier):
            return None
        return self._catalog.load_table(self._identifier)

    def _last_number(self, table: Table, batch: SinkBatch) -> int | None:
        found = table.properties.get(writer_of(batch))
        return int(found) if found is not None else None

    def _commit(self, table: Table | None, batch: SinkBatch, *, undo: bool, replacing: bool) -> None:
        rows = None if batch.large else small_rows(batch)
        given = rows.schema if rows is not None else large_rows(batch).limit(0).toArrow().schema
        # Spark knows that a count is never NULL, but earlier rows of the table do not have the column.
        schema = pa.schema([column.with_nullable(nullable=True) for column in given])
        table = table or self._created(schema, batch)
        created = table.properties.get(_CREATED_BY) == writer_of(batch)
        merges = replacing and self.merges_all(created_by_run=created)
        if rows is not None:
            change = _small_change(rows, replacing=replacing, merges=merges)
        else:
            change = self._large_change(table, large_rows(batch), replacing=replacing, merges=merges)
        batch.check_lease()
        with table.transaction() as transaction:
            with transaction.update_schema() as update:
                update.union_by_name(schema)
            if undo:
                transaction.delete(f"{BATCH} = '{batch.identity}'")
            change(transaction)
            transaction.set_properties({writer_of(batch): str(batch_number(batch))})

    def _created(self, schema: pa.Schema, batch: SinkBatch) -> Table:
        self._catalog.create_namespace_if_not_exists(self._identifier[:-1])
        properties = {_CREATED_BY: writer_of(batch)}
        table = self._catalog.create_table(self._identifier, schema=schema, properties=properties)
        if self._partitions:
            transforms = import_module("pyiceberg.transforms")
            with table.update_spec() as update:
                for column, transform, width in self._partitions:
                    text = f"{transform}[{width}]" if width else transform
                    update.add_field(column, transforms.parse_transform(text))
        return table

    def _large_change(self, table: Table, rows: DataFrame, *, replacing: bool, merges: bool) -> Change:
        """Executors write files into the table's folder, unless rows replace others or are to be partitioned."""
        if replacing:
            rows = latest_large(rows)
        if merges or (replacing and not rows.where(f"{EMIT_EPOCH} > 1").isEmpty()):
            return lambda transaction: transaction.upsert(rows.toArrow(), list(KEY))
        if self._partitions:
            # A file of an Iceberg table belongs to one partition, which Spark cannot tell from its transforms.
            return lambda transaction: transaction.append(rows.toArrow())
        folder = f"{table.location()}/data/windowpane-{uuid.uuid4().hex}"
        rows.write.parquet(folder)
        place, system = hadoop_path(rows.sparkSession, folder)
        found = (status.getPath().getName() for status in system.listStatus(place))
        files = [f"{folder}/{name}" for name in found if name.endswith(".parquet")]
        return lambda transaction: transaction.add_files(files)

    def _delete_after(self, table: Table, prefix: str, after: int) -> int:
        found = int(table.scan(row_filter=batches_in(prefix, after), selected_fields=(BATCH,)).to_arrow().num_rows)
        if found:
            table.delete(batches_in(prefix, after))
        return found

    def _read(self, prefix: str | None) -> pa.Table | None:
        table = self._load()
        if table is None:
            return None
        if prefix is None:
            return table.scan().to_arrow()
        return table.scan(row_filter=batches_in(prefix)).to_arrow()


def _small_change(rows: pa.Table, *, replacing: bool, merges: bool) -> Change:
    if replacing:
        rows = latest(rows)
    if merges or (replacing and not is_new(rows)):
        return lambda transaction: transaction.upsert(rows, list(KEY))
    return lambda transaction: transaction.append(rows)


def partition_fields(name: str, text: str) -> list[tuple[str, str, int | None]]:
    """Columns, transforms and widths of `day(window_start), bucket(16, auction), region`."""
    found = []
    for part in (part.strip() for part in re.split(r",(?![^(]*\))", text)):
        match = _PARTITION.fullmatch(part)
        if part and match is None:
            raise ConfigError(
                "BAD_VALUE", f"sink `{name}` cannot partition by `{part}`",
                "write columns, or year, month, day, hour, bucket or truncate of a column: day(window_start)",
                key=f"sinks.{name}.options.partition_by",
            )  # fmt: skip
        if match is not None:
            found.append((match[3], (match[1] or "identity").lower(), int(match[2]) if match[2] else None))
    return found


def pyiceberg() -> Any:
    """The package's catalogs; ConfigError if it is not installed."""
    return optional_module("pyiceberg.catalog", "Iceberg tables", extra="iceberg")
