"""Opens Delta and Iceberg tables of a pipeline with Spark: their rows, or a list of the files that workers read."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from windowpane.config import Stream, Table
from windowpane.connectors.hadoop import session_access
from windowpane.connectors.history import History, reader_of
from windowpane.connectors.table_source import LISTING_DDL, TableReading, limits_of, register_table
from windowpane.core import columns as c
from windowpane.remote.table_log import TableSettings, open_log


def listed_files(spark: SparkSession, name: str, reading: TableReading, history: History | None) -> DataFrame:
    """The files that commits add to a table, which workers read."""
    return reader_of(spark, history).format(register_table(spark, name, reading)).schema(LISTING_DDL).load()


def table_rows(
    spark: SparkSession, name: str, stream: Stream, reading: TableReading, history: History | None
) -> DataFrame:
    """The rows of a table. What cannot be read is in CORRUPT."""
    schema = stream.schema_ or table_ddl(reading.table)
    beside = f"`{c.CORRUPT}` STRING, {c.FILE} STRING, {c.FILE_TIME} BIGINT, {c.FILE_START} BIGINT"
    reader = reader_of(spark, history).format(register_table(spark, name, reading))
    return reader.schema(f"{schema}, {beside}").load()


def static_rows(spark: SparkSession, table: Table, path: str | None) -> DataFrame:
    """A static table as it is now."""
    reading = table_reading(spark, table, path, {}, lists=False)
    name = register_table(spark, f"table_{abs(hash((reading.table.kind, reading.table.name)))}", reading)
    return spark.read.format(name).schema(table.schema_ or table_ddl(reading.table)).load()


def table_reading(
    spark: SparkSession, source: Stream | Table, path: str | None, options: dict[str, str], *, lists: bool
) -> TableReading:
    """How a table is read. `path`: that of the source, resolved. `options`: with limits of micro-batches."""
    known = source.source_format
    assert known.table_log is not None, "only tables have a log"
    name = source.spark_options.get("table") or path or ""
    settings = TableSettings(
        known.table_log, known.name.capitalize(), name, source.spark_options, session_access(spark)
    )
    return TableReading(settings, lists, spark.sparkContext.defaultParallelism, limits_of(options))


def table_ddl(settings: TableSettings) -> str:
    """The columns that a table has now."""
    return ", ".join(
        f"`{each.name}` {each.dataType.simpleString()}" for each in from_arrow_schema(open_log(settings).schema())
    )
