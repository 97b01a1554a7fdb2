"""Reads parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from windowpane.core.rows import CHUNK_ROWS
from windowpane.remote.input_file import InputFile


def read_parquet(source: InputFile, schema: pa.Schema, max_bytes: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """The declared columns that a parquet file has."""
    columns = _names(schema)
    try:
        file = pq.ParquetFile(source.random_access(), coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError):
        if source.start:  # The task that reads the first part says so.
            return
        raise
    groups = _groups(file, source)
    present = [name for name in file.schema_arrow.names if name.lower() in columns]
    if len({name.lower() for name in present}) < len(present):
        raise ValueError(f"columns differ only in case: {', '.join(present)}")
    if not present:
        count = sum(file.metadata.row_group(group).num_rows for group in groups)
        yield pa.RecordBatch.from_arrays([pa.nulls(count)], ["_none"])
        return
    yield from file.iter_batches(CHUNK_ROWS, row_groups=groups, columns=present, use_threads=False)


def _groups(file: pq.ParquetFile, source: InputFile) -> list[int]:
    """The row groups that begin in the part of the file that is to be read."""
    found = range(file.num_row_groups)
    if source.is_whole:
        return list(found)
    chunks = [file.metadata.row_group(group).column(0) for group in found]
    starts = [each.dictionary_page_offset or each.data_page_offset for each in chunks]
    return [group for group, at in enumerate(starts) if source.start <= at < (source.end or at + 1)]


def read_arrow(source: InputFile, schema: pa.Schema, max_bytes: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """The declared columns that an Arrow IPC file has. The first bytes tell a file from a stream."""
    columns = _names(schema)
    with source.random_access() as file:
        magic = file.read(6)
        file.seek(0)
        if magic == b"ARROW1":
            reader = pa.ipc.open_file(file)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            batches = pa.ipc.open_stream(file)
        for batch in batches:
            yield batch.select([name for name in batch.schema.names if name.lower() in columns])


def _names(schema: pa.Schema) -> set[str]:
    return {name.lower() for name in schema.names}
