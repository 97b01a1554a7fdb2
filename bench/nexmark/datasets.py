"""Streams as files: folders of parquet or JSON with as many rows in each file, in order of their time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.nexmark.generator import (
    BEGIN_MS,
    SHARES,
    Shape,
    Stream,
    Table,
    chunk,
    flush_row,
    flush_time_us,
    static_table,
)
from bench.nexmark.topics import Topic

Format: TypeAlias = Literal["parquet", "json"]
READERS = 2


@dataclass(frozen=True)
class Dataset:
    """Folders of files, one per stream. `rows`: of all streams together, without the flushing row of each."""

    folders: dict[Stream, Path]
    rows: int
    file_rows: int
    files: int
    flush_us: int | None
    format: Format = "parquet"
    reader_folders: dict[Stream, Path] = field(default_factory=dict)
    """The same rows with one file for each of two readers, who take turns in the order of the files above.

    Flink takes the files of a folder in no order, and drops what is late then; one file is read from start to end.
    """
    tables: dict[Table, Path] = field(default_factory=dict)
    """Folders of static tables, in parquet."""
    topic: Topic | None = None
    """The same rows in Kafka, for queries that read them there."""


def rates(streams: Sequence[Stream]) -> dict[Stream, float]:
    """The share of each stream in the rows of those that are read together."""
    whole = sum(SHARES[stream] for stream in streams)
    return {stream: SHARES[stream] / whole for stream in streams}


def write_dataset(
    folder: Path,
    streams: tuple[Stream, ...],
    shape: Shape,
    rows: int,
    *,
    file_rows: int = 500_000,
    flush: bool = False,
    file_format: Format = "parquet",
    for_readers: bool = False,
    with_tables: Sequence[Table] = (),
) -> Dataset:
    """`rows` in all, cut into whole files. With `flush` each stream ends with a file of one row that completes all."""
    files = max(1, rows // file_rows)
    folders: dict[Stream, Path] = {stream: folder / stream for stream in streams}
    reader_folders: dict[Stream, Path] = {stream: folder / f"{stream}-readers" for stream in streams if for_readers}
    for stream, share in rates(streams).items():
        with _Readers(reader_folders.get(stream), file_format) as readers:
            folders[stream].mkdir(parents=True)
            for number, table in enumerate(tables(stream, share, shape, files, file_rows, flush=flush)):
                _write(table, folders[stream] / f"{number:06}.{file_format}", number, file_format)
                readers.write(table, number)
    flush_us = flush_time_us(files * file_rows, shape) if flush else None
    static = {table: _write_table(table, folder / table) for table in with_tables}
    return Dataset(folders, files * file_rows, file_rows, files, flush_us, file_format, reader_folders, static)


def _write_table(table: Table, folder: Path) -> Path:
    folder.mkdir(parents=True)
    pq.write_table(static_table(table), folder / "rows.parquet")
    return folder


def first_files(data: Dataset, share: float, folder: Path) -> Dataset:
    """The first of the files of each stream, linked into folders of their own; all of them for a share of one."""
    if share == 1 or data.topic is not None:
        return data
    count = max(1, round(data.files * share))
    folders: dict[Stream, Path] = {}
    for stream, whole in data.folders.items():
        folders[stream] = folder / stream
        folders[stream].mkdir()
        for path in sorted(whole.iterdir())[:count]:
            (folders[stream] / path.name).hardlink_to(path)
    return replace(data, folders=folders, rows=count * data.file_rows, files=count)


def tables(
    stream: Stream, share: float, shape: Shape, files: int, file_rows: int, *, flush: bool
) -> Iterator[pa.Table]:
    """What the files of a stream hold, one after the other. `share`: of `Shape.per_second` and `file_rows`."""
    mine = replace(shape, per_second=max(1, round(shape.per_second * share)))
    count = round(file_rows * share)
    for number in range(files):
        yield chunk(stream, mine, number * count, count)
    if flush:
        yield flush_row(stream, files * count, mine)


def _write(table: pa.Table, path: Path, number: int, file_format: Format) -> None:
    """Files are dated in their order, which is the order in which Spark reads them."""
    if file_format == "parquet":
        pq.write_table(table, path)
    else:
        path.write_bytes(json_lines(table))
    dated = BEGIN_MS // 1000 + number
    os.utime(path, (dated, dated))


class _Readers:
    """Two files that are written in turns, or none."""

    def __init__(self, folder: Path | None, file_format: Format) -> None:
        self._folder, self._format = folder, file_format
        self._stack = contextlib.ExitStack()
        self._parquet: dict[Path, pq.ParquetWriter] = {}

    def __enter__(self) -> Self:
        if self._folder is not None:
            self._folder.mkdir(parents=True)
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def write(self, table: pa.Table, number: int) -> None:
        if self._folder is None:
            return
        path = self._folder / f"{number % READERS}.{self._format}"
        if self._format == "json":
            with path.open("ab") as file:
                file.write(json_lines(table))
            return
        if path not in self._parquet:
            self._parquet[path] = self._stack.enter_context(pq.ParquetWriter(path, table.schema))
        self._parquet[path].write_table(table)


def json_lines(table: pa.Table) -> bytes:
    """Every row as a JSON object in a line of its own."""
    lines = json_objects(table).combine_chunks()
    if isinstance(lines, pa.ChunkedArray):
        lines = lines.chunk(0)
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
    return bytes(joined[0].as_buffer()) + b"\n"


def json_objects(table: pa.Table) -> pa.ChunkedArray:
    """Texts of the generator hold nothing that JSON would escape."""
    parts: list[object] = []
    for position, name in enumerate(table.column_names):
        column = table.column(name)
        is_time = pa.types.is_timestamp(column.type)
        milliseconds = column.cast(pa.timestamp("ms", "UTC")) if is_time else None
        text = pc.strftime(milliseconds, "%Y-%m-%dT%H:%M:%S") if is_time else column.cast(pa.string())
        quote = '"' if is_time or pa.types.is_string(column.type) else ""
        parts += [f'{"," if position else "{"}"{name}":{quote}', text, quote]
    return pc.binary_join_element_wise(*parts, "}", "")
