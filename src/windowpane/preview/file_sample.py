"""The first rows of files, read without Spark as the pipeline would read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from windowpane.config import Stream, Table
from windowpane.config.models import MAX_RECORD_BYTES
from windowpane.core import columns as c
from windowpane.errors import ConfigError
from windowpane.formats import CODECS, load
from windowpane.plan.scan_sources import is_recursive
from windowpane.preview.text_records import CsvRecords, json_records, lines_of, why_not_json
from windowpane.remote.access import Access
from windowpane.remote.input_file import InputFile
from windowpane.remote.source_files import SourceFile
from windowpane.scan.codec import decode_values
from windowpane.scan.csv.lines import CsvLines
from windowpane.scan.files import FileReader, folder_values, folders_of_path
from windowpane.scan.scan import Damage
from windowpane.sql.query import Column
from windowpane.sql.types import to_arrow
from windowpane.testing.decode import Decoded, arrow_schema, decode

_HINT = "run it on Spark, with a checkpoint of its own: windowpane run --drain --checkpoint trial"


class NeedsSparkError(ConfigError):
    """The source, or a part of it, is read by Spark only."""

    def __init__(self, why: str) -> None:
        super().__init__("NEEDS_SPARK", why, _HINT)


@dataclass(frozen=True)
class FileSampler:
    """Reads the beginning of files. `used`: the columns that a query reads."""

    source: Stream | Table
    columns: Sequence[Column]
    used: Sequence[Column]
    access: Access

    def read(self, file: SourceFile, count: int) -> Iterator[Decoded | Damage]:
        """At least `count` rows, if the file has them."""
        try:
            yield from self._rows(file, count)
        except (pa.ArrowException, OSError) as damaged:
            yield Damage(f"{file.path}: {damaged}")

    def _rows(self, file: SourceFile, count: int) -> Iterator[Decoded | Damage]:
        known, opened = self.source.source_format, InputFile(file.path, self.access)
        folders = self._folders(file)
        own = [column for column in self.columns if column.name.lower() not in folders]
        if self.source.format == "csv":
            yield self._whole(self._csv(opened, count, own), folders)
        elif self.source.format == "text":
            lines = list(lines_of(opened, count, blank=True))
            yield self._whole(decode([{own[0].name: line} for line in lines], own[:1]), folders)
        elif known.file_reader is None:
            raise NeedsSparkError(f"only Spark reads files of the format {self.source.format}")
        elif known.untyped:
            used = [column for column in self.used if column.name.lower() not in folders]
            yield self._whole(self._json(list(lines_of(opened, count)), used), folders)
        else:
            yield from self._scanned(file, count)

    @property
    def _folders_of_path(self) -> int | None:
        return folders_of_path(self.source.path or "", recursive=is_recursive(self.source))

    def _folders(self, file: SourceFile) -> dict[str, str | None]:
        """Values of columns that folders name, by the names of columns in lower case."""
        of_path = self._folders_of_path
        if of_path is None:
            return {}
        declared = {column.name.lower() for column in self.columns}
        return {name: value for name, value in folder_values(file.path, of_path).items() if name in declared}

    def _whole(self, rows: Decoded, folders: dict[str, str | None]) -> Decoded:
        """All declared columns: those of folders too, and NULL for those that were not read."""
        table = rows.table
        for name, value in folders.items():
            table = table.append_column(name, pa.repeat(pa.scalar(value, pa.string()), table.num_rows))
        return replace(rows, table=widened(table, self.columns))

    def _csv(self, file: InputFile, count: int, own: Sequence[Column]) -> Decoded:
        """By the scan's own reader where that reads all columns of the query."""
        records, used = CsvRecords(self.source.decoding_options, own), {column.name for column in self.used}
        lines = list(lines_of(file, count + records.dialect.header))[records.dialect.header :]
        read = [column for column in own if column.name in used]
        if any(column.type not in (self.source.source_format.worker_types or ()) for column in read):
            return records.decode(lines)
        whole = CsvLines(tuple(column.name for column in own), records.dialect)
        found = whole.decode_lines(pa.array(lines, pa.string()), arrow_schema(read))
        return Decoded(pa.Table.from_batches([found.columns]), pa.array(lines, pa.string()), found.bad.to_pylist())

    def _json(self, lines: Sequence[str], used: Sequence[Column]) -> Decoded:
        """By the scan's own codec where that reads all columns."""
        if self.source.decoding_options:
            raise NeedsSparkError(f"only Spark reads JSON with the option {min(self.source.decoding_options)}")
        why, codec = why_not_json(used), CODECS.find("json")
        if why is not None:
            raise NeedsSparkError(why)
        events = pa.array(lines, pa.string())
        if codec is None or any(column.type not in codec.worker_types for column in used):
            return replace(json_records(lines, used), events=events)
        values = pa.array([line.encode() for line in lines], pa.binary())
        found = decode_values(load(codec.workers)(), values, arrow_schema(used), MAX_RECORD_BYTES)
        return Decoded(pa.Table.from_batches([found.columns]), events, found.bad.to_pylist())

    def _scanned(self, file: SourceFile, count: int) -> Iterator[Decoded | Damage]:
        """Files that carry their types, by the reader of the scan."""
        reader = FileReader(
            load(self.source.source_format.file_reader or ""),
            typed(self.columns),
            MAX_RECORD_BYTES,
            self.access,
            self._folders_of_path,
        )
        modified = pa.array([file.modified_us], pa.timestamp("us", "UTC"))
        listing = pa.RecordBatch.from_pydict({"path": [file.path], "modificationTime": modified})
        for part in reader.read(iter([listing])):
            yield sampled(part.content, self.columns, count)


def sampled(content: pa.RecordBatch | Damage, columns: Sequence[Column], count: int) -> Decoded | Damage:
    """At most `count` rows that a reader of the scan has read."""
    if isinstance(content, Damage):
        return content
    rows = content.slice(0, count)
    bad: list[str | None] = [None] * rows.num_rows
    if c.CORRUPT in rows.schema.names:
        bad = rows.column(c.CORRUPT).to_pylist()
        rows = rows.drop_columns([c.CORRUPT])
    return replace(decode(pa.Table.from_batches([rows]), columns), problems=bad)


def widened(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """All declared columns; those that were not read are NULL."""
    schema = arrow_schema(columns)
    there = {name.lower(): name for name in table.column_names}
    arrays = [
        table.column(there[field.name.lower()]).cast(field.type)
        if field.name.lower() in there
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def typed(columns: Sequence[Column]) -> tuple[tuple[str, pa.DataType], ...]:
    """Columns with Arrow's types; NeedsSparkError for a type that Arrow does not have."""
    for column in columns:
        if to_arrow(column.type) is None:
            raise NeedsSparkError(f"only Spark reads column `{column.name}`, a {column.type}")
    return tuple((column.name, to_arrow(column.type)) for column in columns)
