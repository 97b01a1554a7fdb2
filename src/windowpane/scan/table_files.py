"""Reads the files of a table's commits. The listing has them in order, with the values of columns that the log has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from windowpane.core.numbering import Place
from windowpane.remote.input_file import InputFile
from windowpane.scan.columnar_files import read_parquet
from windowpane.scan.files import FileReader
from windowpane.scan.scan import Part

LISTING = pa.schema([("path", pa.string()), ("number", pa.int64()), ("partition_values", pa.string())])
"""A file, its number in the micro-batch, and values of columns as a JSON object."""


@dataclass(frozen=True)
class TableFileReader:
    """Reads parquet files of a table. As `Reader`."""

    files: FileReader

    @property
    def place(self) -> tuple[str, ...]:
        return ()

    @property
    def schema(self) -> pa.Schema:
        return self.files.schema

    def read(self, handed: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        for batch in handed:
            for row in batch.to_pylist():
                file = InputFile(row["path"], self.files.access)
                values: Mapping[str, str | None] = json.loads(row["partition_values"])
                place = Place.of_file(row["number"], row["path"])
                yield from (Part(content, place) for content in self.files.contents(file, values))


def table_reader(files: FileReader) -> TableFileReader:
    """A reader of a table's files. Folders do not name columns of it: the log does."""
    return TableFileReader(replace(files, read_batches=read_parquet, folders_of_path=None))
