"""Delta and Iceberg tables as sources of Spark: commits are offsets, and the files that they add are rows or a listing.

Spark records the offsets in its checkpoint before a micro-batch runs, and a repeated batch reads the same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from windowpane.core import columns as c
from windowpane.remote.table_log import NOTHING, STARTING_AFTER, TableFile, TableLog, TableSettings, open_log
from windowpane.scan.columnar_files import read_parquet
from windowpane.scan.files import FileReader
from windowpane.scan.scan import Damage
from windowpane.scan.table_files import LISTING, table_reader

LISTING_DDL = "path STRING, number BIGINT, partition_values STRING"
_ALL = -1
"""All files of a version have been read."""
_FILES, _BYTES = "maxfilespertrigger", "maxbytespertrigger"


@dataclass(frozen=True)
class _Files(InputPartition):
    """Files of one task, with their numbers in the micro-batch."""

    files: tuple[tuple[int, TableFile], ...]

    def listing(self) -> pa.RecordBatch:
        rows = [
            {"path": file.path, "number": number, "partition_values": json.dumps(dict(file.values))}
            for number, file in self.files
        ]
        return pa.RecordBatch.from_pylist(rows, schema=LISTING)


@dataclass(frozen=True)
class TableReading:
    """How a table is read. Picklable."""

    table: TableSettings
    lists: bool
    """Rows name files, which workers read elsewhere."""
    tasks: int
    limits: tuple[int | None, int | None] = (None, None)
    """Files and bytes of a micro-batch."""

    def spread(self, files: Sequence[TableFile]) -> list[_Files]:
        """Files on tasks, largest first, each to the task that has the least."""
        shares: list[list[tuple[int, TableFile]]] = [[] for _ in range(max(1, min(self.tasks, len(files))))]
        sizes = [0] * len(shares)
        for number, file in sorted(enumerate(files), key=lambda each: -each[1].size):
            least = sizes.index(min(sizes))
            shares[least].append((number, file))
            sizes[least] += file.size
        return [_Files(tuple(sorted(share, key=lambda each: each[0]))) for share in shares if share]

    def read(self, part: _Files, schema: StructType) -> Iterator[pa.RecordBatch]:
        if self.lists:
            yield part.listing()
        else:
            yield from self._rows(part, schema)

    def _rows(self, part: _Files, schema: StructType) -> Iterator[pa.RecordBatch]:
        """Rows of the schema. Where it has CORRUPT, this says why a file cannot be read to its end."""
        whole = to_arrow_schema(schema, timezone="UTC")
        own = tuple((field.name, field.type) for field in whole if field.name not in (c.CORRUPT, *c.FILE_COLUMNS))
        reader = table_reader(FileReader(read_parquet, own, 0, self.table.access))
        for found in reader.read(iter([part.listing()])):
            content = found.content
            if isinstance(content, Damage):
                if c.CORRUPT not in whole.names:
                    raise self.table.gone(NOTHING, content.detail)
                content = pa.RecordBatch.from_arrays(
                    [pa.nulls(1, kind) for _, kind in own] + [pa.array([content.detail])],
                    [*(name for name, _ in own), c.CORRUPT],
                )
            beside = {c.FILE: found.place.name, c.FILE_TIME: found.place.modified_us, c.FILE_START: 0}
            yield _with_columns(content, beside, whole)


def _with_columns(rows: pa.RecordBatch, beside: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        if field.name in rows.schema.names:
            arrays.append(rows.column(field.name).cast(field.type))
        elif beside.get(field.name) is not None:
            arrays.append(pa.repeat(pa.scalar(beside[field.name], field.type), rows.num_rows))
        else:
            arrays.append(pa.nulls(rows.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets: `version` and how many of its `files` have been read. `start`: the version that is read as a whole."""

    def __init__(self, reading: TableReading, schema: StructType) -> None:
        self._reading, self._schema = reading, schema
        self._log: TableLog | None = None
        self._last: int | None = None

    def _opened(self) -> TableLog:
        if self._log is None:
            self._log = open_log(self._reading.table)
        return self._log

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # PySpark's name
        given = self._reading.table.options.get(STARTING_AFTER)
        if given is None:
            start = self._opened().latest()
            return {"start": start, "version": start, "files": 0}
        version = self._opened().latest() if given == "latest" else int(given)
        return {"start": NOTHING - 1, "version": version, "files": _ALL}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._opened().latest()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        end, most_files, most_bytes = dict(start), *self._reading.limits
        unlimited, count, size = isinstance(limit, ReadAllAvailable), 0, 0
        for version, files in self._versions(start):
            first = start["files"] if version == start["version"] else 0
            for number, file in enumerate(files[first:], first):
                full = (most_files is not None and count >= most_files) or (
                    most_bytes is not None and count > 0 and size + file.size > most_bytes
                )
                if full and not unlimited:
                    return end | {"version": version, "files": number}
                count, size = count + 1, size + file.size
            end |= {"version": version, "files": _ALL}
        return end

    def _versions(self, start: dict[str, int]) -> Iterator[tuple[int, list[TableFile]]]:
        """The version that was begun, and those after it, each with its files."""
        log = self._opened()
        if start["files"] != _ALL:
            yield start["version"], self._files(start, start["version"])
        if self._last == start["version"]:
            return
        for version in log.after(start["version"]):
            yield version, self._files(start, version)
            if version == self._last:
                return

    def _files(self, offset: dict[str, int], version: int) -> list[TableFile]:
        log = self._opened()
        return log.snapshot(version) if version == offset["start"] else log.added(version)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[_Files]:
        if start == end:
            return []
        found: list[TableFile] = []
        for version, files in self._versions(start):
            first = start["files"] if version == start["version"] else 0
            last = end["files"] if version == end["version"] and end["files"] != _ALL else len(files)
            found += files[first:last]
            if version == end["version"]:
                break
        return self._reading.spread(found)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Files)
        return self._reading.read(partition, self._schema)

    def __getstate__(self) -> dict[str, Any]:
        return {"_reading": self._reading, "_schema": self._schema, "_log": None, "_last": None}


class _Batch(DataSourceReader):
    """All files that the table has now."""

    def __init__(self, reading: TableReading, schema: StructType) -> None:
        self._reading, self._schema = reading, schema

    def partitions(self) -> list[_Files]:
        log = open_log(self._reading.table)
        return self._reading.spread(log.snapshot(log.latest())) or [_Files(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Files)
        return self._reading.read(partition, self._schema)


def register_table(spark: SparkSession, name: str, reading: TableReading) -> str:
    """Let Spark know a table; the name of its format. Settings travel with the class, not as options of Spark."""

    class TableSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return registered

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return _Stream(reading, schema)

        def reader(self, schema: StructType) -> DataSourceReader:
            return _Batch(reading, schema)

    registered = f"windowpane_{'files' if reading.lists else 'rows'}_{name}"
    spark.dataSource.register(TableSource)
    return registered


def limits_of(options: dict[str, str]) -> tuple[int | None, int | None]:
    """How many files and bytes a micro-batch has at most."""
    given = {name.lower(): value for name, value in options.items()}
    return (int(given[_FILES]) if _FILES in given else None, int(given[_BYTES]) if _BYTES in given else None)
