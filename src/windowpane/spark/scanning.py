"""The columnar scan in the workers: files to the columns of the input projection. Imports Arrow, and DuckDB if needed.

A file that cannot be read to its end gives the rows before the damage and one error row that names it.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.core.side import DECODE, SHOWN
from windowpane.plan.eventtime_iso import parse_iso8601
from windowpane.plan.steps import EventTimeColumn
from windowpane.spark import json_lines

BATCH_ROWS = 1_000_000
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_PARTITION = re.compile(r"/([^/=]+)=([^/]*)(?=/)")


@dataclass(frozen=True)
class Scanned:
    """Rows as operators take them. With `source`, which is what was read, EVENT numbers its rows."""

    rows: pa.RecordBatch
    source: pa.RecordBatch | None = None


@dataclass(frozen=True)
class FileScan:
    """Picklable: `read` runs in the workers. Types are those of Spark, in Arrow."""

    format: str
    columns: tuple[tuple[str, pa.DataType], ...]
    time: EventTimeColumn | None
    plain: tuple[tuple[str, str], ...]
    computed: tuple[tuple[str, str, pa.DataType], ...]
    where: str | None
    original: bool = False
    """Side outputs keep events: the rows as they were read go along."""
    detail: str | None = None
    """For a row that has an error, which expression is to blame."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows, with their events as text."""
        schema = self._empty.schema
        return schema.append(pa.field(c.EVENT, pa.string())) if self.original else schema

    @cached_property
    def _empty(self) -> pa.RecordBatch:
        return self._projected(empty_batch(pa.schema(self.columns)), 0)

    def read(self, listed: Iterator[pa.RecordBatch], clock_us: int) -> Iterator[Scanned]:
        """Rows of all files whose paths are in the column `path`."""
        for batch in listed:
            for path in batch.column("path").to_pylist():
                yield from self._file(path.removeprefix("file://").removeprefix("file:"), clock_us)

    def _file(self, path: str, clock_us: int) -> Iterator[Scanned]:
        try:
            for source in self._sources(path):
                rows = self._projected(source, clock_us)
                yield Scanned(_numbered(rows), source) if self.original else Scanned(rows)
        except (pa.ArrowException, OSError, ValueError, NotImplementedError) as damaged:
            yield self._damage(f"file:{path}: {damaged}")

    def _sources(self, path: str) -> Iterator[pa.RecordBatch]:
        """What a file has of the declared columns; of text also CORRUPT, the text of records that cannot be read."""
        if self.format == "json":
            for part in json_lines.read_file(path, pa.schema(self.columns)):
                yield self._fitted(part.columns, path).append_column(c.CORRUPT, part.bad)
            return
        for batch in READERS[self.format](path, {name.lower() for name, _ in self.columns}):
            yield self._fitted(batch, path)

    def _damage(self, detail: str) -> Scanned:
        columns = {field.name: pa.nulls(1, field.type) for field in self.schema}
        columns |= {c.ERROR: pa.array([DECODE]), c.DETAIL: pa.array([detail])}
        return Scanned(pa.RecordBatch.from_pydict(columns))

    def _fitted(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        """The declared columns in their declared types; those that the file does not have are in its path, or NULL."""
        names = {name.lower(): name for name in batch.schema.names}
        folders = {name.lower(): value for name, value in _PARTITION.findall(path)}
        arrays = []
        for name, kind in self.columns:
            if name.lower() in names:
                arrays.append(_as_declared(batch.column(names[name.lower()]), kind, name))
            else:
                arrays.append(_from_path(folders.get(name.lower()), kind, batch.num_rows))
        return pa.RecordBatch.from_arrays(arrays, [name for name, _ in self.columns])

    def _projected(self, batch: pa.RecordBatch, clock_us: int) -> pa.RecordBatch:
        columns = self._times(batch, clock_us)
        columns |= {name: batch.column(column) for name, column in self.plain}
        if self.computed:
            columns |= self._evaluated(batch)
        details = [columns.pop(_TIME_DETAIL)] if _TIME_DETAIL in columns else []
        details += [self._blamed(batch, columns["_error"])] if "_error" in columns else []
        reasons = [columns.pop(name) for name in (_TIME_ERROR, "_error") if name in columns]
        corrupt = batch.column(c.CORRUPT) if c.CORRUPT in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
        if corrupt.null_count < len(corrupt):
            reasons = [pc.if_else(corrupt.is_valid(), DECODE, pa.scalar(None, pa.string())), *reasons]
        if reasons:
            columns[c.ERROR] = pc.coalesce(*reasons) if len(reasons) > 1 else reasons[0]
            columns[c.DETAIL] = pc.coalesce(corrupt, *details)
        if self.where is not None:
            columns[c.KEEP] = pc.fill_null(columns[self.where], False)
        return pa.RecordBatch.from_pydict(columns)

    def _times(self, batch: pa.RecordBatch, clock_us: int) -> dict[str, pa.Array]:
        count = batch.num_rows
        if self.time is None:
            return {c.TS: pa.array(np.full(count, clock_us, np.int64))}
        times = _micros(batch.column(self.time.column), self.time.unit_us)
        if self.time.strict:
            absent = pc.if_else(batch.column(self.time.column).is_null(), "event_time_null", "event_time_parse")
            reason = pc.if_else(times.is_null(), absent, pa.scalar(None, pa.string()))
            return {
                c.TS: times, _TIME_ERROR: reason,
                _TIME_DETAIL: _failures(self.time, batch.column(self.time.column), times),
            }  # fmt: skip
        return {c.TS: times}

    def _evaluated(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Computed columns. One that fails on a row is NULL there, and the row's error says why."""
        found = _computed(batch, {name: text for name, text, _ in self.computed})
        return {name: found.column(name).combine_chunks().cast(kind) for name, _, kind in self.computed}

    def _blamed(self, batch: pa.RecordBatch, reasons: pa.Array) -> pa.Array:
        """Of rows that have an error, which expression is to blame. Looked for only where there are such rows."""
        nothing = pa.nulls(batch.num_rows, pa.string())
        if self.detail is None or reasons.null_count == batch.num_rows:
            return nothing
        details = _computed(batch, {"detail": self.detail}).column("detail").combine_chunks().cast(pa.string())
        return pc.if_else(reasons.is_valid(), details, nothing)


def _computed(batch: pa.RecordBatch, items: Mapping[str, str]) -> pa.Table:
    from windowpane.plan import duckdb_tables  # noqa: PLC0415  # most queries need no more than bare columns

    return duckdb_tables.compute(duckdb_tables.connect(), items, pa.Table.from_batches([batch]))


_TIME_ERROR, _TIME_DETAIL = "_time_error", "_time_detail"


def _failures(at: EventTimeColumn, values: pa.Array, times: pa.Array) -> pa.Array:
    """What rows without a time have there instead, NULL for the others."""
    if not times.null_count:
        return pa.nulls(len(times), pa.string())
    shown = pc.utf8_slice_codeunits(values.cast(pa.string()), 0, SHOWN)
    there = pc.binary_join_element_wise(f"{at.column} is ", shown, f", which is no {at.type}", "")
    told = pc.coalesce(there, f"{at.column} is NULL")
    return pc.if_else(times.is_null(), told, pa.scalar(None, pa.string()))


def _numbered(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column(c.EVENT, pa.array(np.arange(rows.num_rows, dtype=np.int64)))


def _parquet(path: str, columns: set[str]) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    present = [name for name in file.schema_arrow.names if name.lower() in columns]
    if len({name.lower() for name in present}) < len(present):
        raise ValueError(f"columns differ by upper and lower case only: {', '.join(present)}")
    if not present:
        yield pa.RecordBatch.from_arrays([pa.nulls(file.metadata.num_rows)], ["_none"])
        return
    yield from file.iter_batches(BATCH_ROWS, columns=present, use_threads=False)


def _arrow(path: str, columns: set[str]) -> Iterator[pa.RecordBatch]:
    """IPC in either of its forms, by the first bytes."""
    with pa.memory_map(path) as file:
        magic = file.read(6)
        file.seek(0)
        if magic == b"ARROW1":
            reader = pa.ipc.open_file(file)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            batches = pa.ipc.open_stream(file)
        for batch in batches:
            yield batch.select([name for name in batch.schema.names if name.lower() in columns])


READERS: dict[str, Callable[[str, set[str]], Iterator[pa.RecordBatch]]] = {"parquet": _parquet, "arrow": _arrow}


def _as_declared(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """A column of a file in its declared type, where Spark would read it so; ValueError where it would not."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == kind:
        return array
    if not _readable(array.type, kind):
        raise ValueError(f"column `{name}` is {array.type}, and {kind} is declared")
    if pa.types.is_timestamp(kind):
        # Nanoseconds are cut off, as in any other source.
        return array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(kind)
    return array.cast(kind)


def _readable(found: pa.DataType, declared: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(found):
        return True
    if types.is_signed_integer(declared):
        return bool(types.is_signed_integer(found) and found.bit_width <= declared.bit_width)
    if types.is_floating(declared):
        smaller = types.is_floating(found) and found.bit_width <= declared.bit_width
        return bool(smaller or (types.is_signed_integer(found) and found.bit_width <= declared.bit_width // 2))
    if types.is_timestamp(declared):
        return bool(types.is_timestamp(found))
    if types.is_string(declared):
        return bool(types.is_large_string(found) or types.is_string_view(found))
    if types.is_decimal(declared):
        return bool(types.is_decimal(found) and found.scale == declared.scale and found.precision <= declared.precision)
    return False


def _from_path(value: str | None, kind: pa.DataType, count: int) -> pa.Array:
    """A column that the folders name, as in `day=2024-05-01/`."""
    if value is None or value == _HIVE_NULL:
        return pa.nulls(count, kind)
    text = pa.scalar(urllib.parse.unquote(value))
    return pa.repeat(pa.compute.cast(text, kind), count)


def _micros(values: pa.Array, unit_us: int | None) -> pa.Array:
    if pa.types.is_string(values.type):
        return parse_iso8601(values)[0]
    if unit_us is None:
        return values.cast(pa.int64())
    wide = values.cast(pa.int64())
    if unit_us == 1:
        return wide
    limit = np.iinfo(np.int64).max // unit_us
    fits = pc.and_(pc.less_equal(wide, limit), pc.greater_equal(wide, -limit))
    return pc.multiply(pc.if_else(fits, wide, None), unit_us)
