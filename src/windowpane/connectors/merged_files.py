"""Makes one file of several that a file sink has written, with their rows in order. Needs no Spark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from windowpane.durable import sync_below

_PACKED = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")
_INT96 = "INT96"
_UTC = pa.timestamp("us", "UTC")


def can_merge(files: Sequence[Path]) -> bool:
    """Whether files have the same columns and types, and none that would change."""
    if _ending(files[0]) != "parquet":
        return True
    schemas = [_schema(file) for file in files]
    return schemas[0] is not None and all(each is not None and each.equals(schemas[0]) for each in schemas)


def merge(files: Sequence[Path], target: Path, *, header: bool) -> None:
    """Write the rows of all files to `target`, and sync it to disk. `header`: CSV files begin with names of columns."""
    if _ending(files[0]) == "parquet":
        _merge_parquet(files, target)
    elif header:
        _merge_without_headers(files, target)
    else:
        _join(files, target)
    sync_below(target)


def _ending(file: Path) -> str:
    return file.name.rpartition(".")[2]


def _join(files: Sequence[Path], target: Path) -> None:
    """Lines one after the other. Parts that are compressed each are compressed as a whole, too."""
    plain = _ending(files[0]) not in _PACKED
    with target.open("wb") as out:
        for file in files:
            with file.open("rb") as part:
                shutil.copyfileobj(part, out)
                if plain and part.tell():
                    part.seek(-1, os.SEEK_END)
                    out.write(b"" if part.read() == b"\n" else b"\n")


def _merge_without_headers(files: Sequence[Path], target: Path) -> None:
    compression = pa.Codec.detect(str(files[0])).name if _ending(files[0]) != "csv" else None
    with pa.output_stream(str(target), compression=compression) as out:
        for number, file in enumerate(files):
            with pa.input_stream(str(file), compression=compression) as part:
                text = part.read()
            out.write(text if number == 0 else text.partition(b"\n")[2])


def _schema(file: Path) -> pa.Schema | None:
    """As it is written; None if a nested column has a type that Arrow does not write."""
    opened = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    schema, columns = opened.schema_arrow, opened.schema
    for number in range(len(columns)):
        column = columns.column(number)
        if column.physical_type == _INT96:
            at = schema.get_field_index(column.path)
            if at < 0:
                return None
            schema = schema.set(at, schema.field(at).with_type(_UTC))
    return schema


def _merge_parquet(files: Sequence[Path], target: Path) -> None:
    schema = _schema(files[0])
    assert schema is not None, "as `can_merge` has found"
    with pq.ParquetWriter(target, schema, compression="snappy") as out:
        for file in files:
            opened = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
            for group in range(opened.num_row_groups):
                out.write_table(opened.read_row_group(group).cast(schema))
