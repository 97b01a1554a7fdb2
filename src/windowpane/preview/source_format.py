"""Recognizes the format of files or messages, and infers the schema of their records."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from windowpane.errors import ConfigError, gist
from windowpane.formats import SOURCES, source_format
from windowpane.preview.table_sample import delta_schema
from windowpane.preview.text_records import lines_of
from windowpane.remote.input_file import InputFile
from windowpane.remote.kafka_sample import sample_messages
from windowpane.remote.source_files import SourceFile, source_files
from windowpane.scan.files import folder_values, folders_of_path
from windowpane.sql import parse_schema
from windowpane.sql.sampling import Sample, arrow_ddl, csv_cell, sample_records
from windowpane.sql.types import quoted

_FORMATS = {
    ending: known
    for name in SOURCES.names
    if (known := SOURCES.find(name)) is not None and known.is_files
    for ending in known.endings
}
_ENDINGS = {ending: known.name for ending, known in _FORMATS.items() if known.sampled}
_COMPRESSED = re.compile(r"\.(gz|bz2|zst|lz4)$")
_CONFLUENT = 0
"""The first byte of a value whose schema is in a registry."""
KAFKA_ADDRESS = re.compile(r"kafka://(?P<servers>[^/]+)/(?P<topic>[^/?]+)/?")


@dataclass(frozen=True)
class FoundSource:
    """A source as a stream of pipeline.toml describes it."""

    format: str
    name: str
    ddl: str
    path: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    value_format: str | None = None
    notes: tuple[str, ...] = ()
    """What a reader of the pipeline should know."""
    misfits: Sample | None = None
    """Values that the schema does not hold."""

    def settings(self) -> dict[str, Any]:
        """The keys of `[streams.NAME]`."""
        given = {
            "format": self.format, "path": self.path, "value_format": self.value_format, "schema": self.ddl,
            "options": self.options,
        }  # fmt: skip
        return {key: value for key, value in given.items() if value}


_NEW_FILES = 10
"""Of so many new CSV files, the largest has the header: a stray one is small."""


def find_source(address: str, rows: int) -> FoundSource:
    """The source at an address: `kafka://host:port/topic`, a file, a folder, a glob, or an object store."""
    if address.startswith("kafka:"):
        return _of_kafka(address, rows)
    delta = delta_schema(address)
    if delta is not None:
        note = "each commit of the Delta table adds rows; skip_changes leaves out those that change rows"
        return FoundSource(format="delta", name=stream_name(address), ddl=delta, path=address, notes=(note,))
    return _of_files(address, rows)


def _of_files(address: str, rows: int) -> FoundSource:
    everything = source_files(address, recursive=True)
    if not everything:
        raise ConfigError("NO_FILES", f"there are no files in `{address}`", "name a folder with files, or a file")
    direct = source_files(address)
    listed = direct or everything
    known = [file for file in listed if _ending(file) in _ENDINGS]
    if not known:
        raise _unknown_format(address, listed)
    chosen = Counter(_ENDINGS[_ending(file)] for file in known).most_common(1)[0][0]
    files = [file for file in known if _ENDINGS[_ending(file)] == chosen]
    options: dict[str, Any] = {}
    notes: list[str] = []
    if not direct:
        options["recursiveFileLookup"] = True
        notes.append("the files are in folders below, so recursiveFileLookup is set")
    if len(files) < len(listed):
        options["pathGlobFilter"] = _name_filter(files)
        notes.append(f"only its {chosen} files are read; {len(listed) - len(files)} others are left out")
    path = address
    if [file.path for file in everything] == [address]:
        # Spark reads streams from folders.
        path, _, options["pathGlobFilter"] = address.rpartition("/")
        path = path or "."
    damaged: dict[str, str] = {}
    found = _schema(chosen, files, rows, options, damaged)
    notes += [f"{path} cannot be read to its end ({why}), which is an error row" for path, why in damaged.items()]
    ddl = _with_folders(found.ddl, files, folders_of_path(path, recursive="recursiveFileLookup" in options))
    return FoundSource(
        format=chosen, name=stream_name(address), ddl=ddl, path=path, options=options, notes=tuple(notes),
        misfits=found,
    )  # fmt: skip


def schema_of_files(kind: str, files: Sequence[SourceFile], of_path: int | None) -> str:
    """The columns of parquet or Arrow files, and those that their folders name. `of_path`: as of `FileReader`."""
    if not files:
        raise ConfigError("NO_FILES", "there are no files to take the schema from", "declare `schema`")
    return _with_folders(_schema(kind, files, 1, {}, {}).ddl, files, of_path)


def _with_folders(ddl: str, files: Sequence[SourceFile], of_path: int | None) -> str:
    there = {column.name.lower() for column in parse_schema(ddl)}
    added = {name: kind for name, kind in _folder_columns(files, of_path).items() if name.lower() not in there}
    return ", ".join([ddl, *(f"{quoted(name)} {kind}" for name, kind in added.items())])


def _unknown_format(address: str, files: Sequence[SourceFile]) -> ConfigError:
    endings = sorted({_ending(file) for file in files})
    spark = next((ending for ending in endings if ending in _FORMATS), None)
    valid = ", ".join(f".{ending}" for ending in _ENDINGS)
    if spark is not None:
        hint = f"only Spark reads these: run `windowpane init` and set format, path and schema; without Spark: {valid}"
        return ConfigError("NEEDS_SPARK", f"`{address}` has {spark} files", hint)
    shown = ", ".join(f".{ending}" if ending else "no ending" for ending in endings[:5])
    return ConfigError("UNKNOWN_FORMAT", f"`{address}` has no file of a known format ({shown})", f"known: {valid}")


def _ending(file: SourceFile) -> str:
    name = _COMPRESSED.sub("", file.name)
    return name.rpartition(".")[2].lower() if "." in name else ""


def _name_filter(files: Iterable[SourceFile]) -> str:
    found = (re.search(r"([^.]+(\.(gz|bz2|zst|lz4))?)$", file.name) for file in files)
    endings = sorted({match[1] for match in found if match})
    return f"*.{endings[0]}" if len(endings) == 1 else f"*.{{{','.join(endings)}}}"


def _folder_columns(files: Sequence[SourceFile], of_path: int | None) -> dict[str, str]:
    """Columns that folders name, with Spark's types of them."""
    values: dict[str, set[str]] = {}
    for file in files if of_path is not None else ():
        for name, value in folder_values(file.path, of_path or 0).items():
            values.setdefault(name, set()).update([value] if value is not None else [])
    return {name: _folder_type(each) for name, each in values.items()}


def _folder_type(values: Iterable[str]) -> str:
    texts = list(values)
    if not texts:
        return "STRING"
    if all(re.fullmatch(r"[1-9]\d{0,8}|0", text) for text in texts):
        return "INT"
    return "DATE" if all(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for text in texts) else "STRING"


def _schema(
    kind: str, files: Sequence[SourceFile], rows: int, options: dict[str, Any], damaged: dict[str, str]
) -> Sample:
    """The schema of the newest files, which a pipeline will see more of. Adds options of the reader.

    `damaged`: gets the files that cannot be read to their end, with the reasons.
    """
    newest = [file for file in reversed(files) if file.size] or list(files)
    if not source_format(kind).untyped:
        found = Sample(_own_schema(kind, newest, damaged), 0, ())
    else:
        # Rows of several files: the newest one alone may lack columns that the others have.
        reading = _Lines(damaged, rows if len(newest) == 1 else max(rows // min(len(newest), _NEW_FILES), 1))
        records = _json(newest, reading) if kind == "json" else _csv(newest, options, reading)
        found = sample_records(islice(records, rows))
    if not found.ddl and damaged:
        path, why = next(iter(damaged.items()))
        raise ConfigError("FILE_UNREADABLE", f"`{path}` cannot be read: {why}")
    if not found.ddl:
        raise ConfigError("NO_ROWS", f"no row can be read from `{newest[0].path}`", "name a file with rows")
    return found


def _own_schema(kind: str, files: Sequence[SourceFile], damaged: dict[str, str]) -> str:
    """The schema of the first file that can be opened; empty if there is none."""
    for file in files:
        try:
            schema = _parquet(file) if kind == "parquet" else _arrow(file)
        except (OSError, pa.ArrowException) as failed:
            damaged[file.path] = gist(failed)
        else:
            return ", ".join(f"{quoted(each.name)} {arrow_ddl(each.type)}" for each in schema)
    return ""


@dataclass(frozen=True)
class _Lines:
    """Reads the beginning of files, as far as they can be read."""

    damaged: dict[str, str]
    count: int

    def of(self, file: SourceFile, beside: int = 0) -> Iterator[str]:
        """`beside`: lines that are no rows."""
        try:
            yield from lines_of(InputFile(file.path), self.count + beside)
        except (OSError, pa.ArrowException) as failed:
            self.damaged[file.path] = gist(failed)


def _parquet(file: SourceFile) -> pa.Schema:
    return pq.ParquetFile(InputFile(file.path).random_access()).schema_arrow


def _arrow(file: SourceFile) -> pa.Schema:
    with InputFile(file.path).random_access() as source:
        magic = source.read(6)
        source.seek(0)
        return (pa.ipc.open_file(source) if magic == b"ARROW1" else pa.ipc.open_stream(source)).schema


def _json(files: Iterable[SourceFile], reading: _Lines) -> Iterator[tuple[tuple[str, int], object]]:
    for file in files:
        for number, line in enumerate(reading.of(file), 1):
            yield (file.path, number), _parsed(line)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def _csv(
    files: Sequence[SourceFile], options: dict[str, Any], reading: _Lines
) -> Iterator[tuple[tuple[str, int], object]]:
    """Rows by the names of the first line of the largest new file; `_c0` and so on, as Spark calls them, where that has
    a number.
    """
    largest = max(files[:_NEW_FILES], key=lambda file: file.size)
    first = next(reading.of(largest), "")
    separator = max(",;\t|", key=first.count)
    cells = _cells(first, separator)
    named = not any(isinstance(csv_cell(cell), (int, float)) for cell in cells)
    header = cells if named else [f"_c{index}" for index in range(len(cells))]
    if named:
        options["header"] = True
    if separator != ",":
        options["sep"] = separator
    return _csv_rows(files, header, separator, reading, named=named)


def _csv_rows(
    files: Iterable[SourceFile], header: Sequence[str], separator: str, reading: _Lines, *, named: bool
) -> Iterator[tuple[tuple[str, int], object]]:
    for file in files:
        for number, line in enumerate(reading.of(file, int(named)), 1):
            if named and number == 1:
                continue
            cells = _cells(line, separator)
            row = dict(zip(header, map(csv_cell, cells), strict=False))
            yield (file.path, number), row if len(cells) == len(header) else line


def _cells(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator), [])


def _of_kafka(address: str, rows: int) -> FoundSource:
    match = KAFKA_ADDRESS.fullmatch(address)
    if match is None:
        raise ConfigError("BAD_ADDRESS", f"`{address}` names no topic", "write it like kafka://localhost:9092/orders")
    options = {
        "kafka.bootstrap.servers": match["servers"], "subscribe": match["topic"], "startingOffsets": "earliest",
    }  # fmt: skip
    messages, _ = sample_messages(options, [match["topic"]], rows, newest=True)
    values = [value for value in messages.column("value").to_pylist() if value is not None]
    if not values:
        raise ConfigError("NO_ROWS", f"the topic `{match['topic']}` has no messages", "send some, and try again")
    format_, found = _values(values, match["topic"])
    return FoundSource(
        format="kafka", name=stream_name(match["topic"]), ddl=found.ddl, options=options, value_format=format_,
        misfits=found,
    )  # fmt: skip


def _values(values: Sequence[bytes], topic: str) -> tuple[str, Sample]:
    """How the values of messages are encoded, and their schema."""
    read = [_parsed(value.decode("utf-8", "replace")) for value in values]
    objects = [row for row in read if isinstance(row, dict)]
    if 2 * len(objects) > len(values):
        if all(_is_change(row) for row in objects):
            changed = [_changed(row) for row in objects]
            return "debezium-json", sample_records(((topic, number), row) for number, row in enumerate(changed, 1))
        return "json", sample_records(((topic, number), row) for number, row in enumerate(read, 1))
    if 2 * sum(value[:1] == bytes([_CONFLUENT]) for value in values) > len(values):
        hint = 'set value_format = "avro" and options.schema_registry in a pipeline.toml of `windowpane init`'
        raise ConfigError("UNKNOWN_FORMAT", f"the values of `{topic}` have their schema in a registry", hint)
    try:
        _ = [value.decode() for value in values]
    except UnicodeDecodeError:
        hint = "set value_format to avro or protobuf, and its schema file, in a pipeline.toml of `windowpane init`"
        raise ConfigError("UNKNOWN_FORMAT", f"the values of `{topic}` are not text", hint) from None
    return "string", Sample("line STRING", len(values), ())


def _is_change(row: dict[str, Any]) -> bool:
    """Whether it is a change event of Debezium."""
    event = row.get("payload", row)
    return isinstance(event, dict) and "op" in event and ("after" in event or "before" in event)


def _changed(row: dict[str, Any]) -> dict[str, Any]:
    event = row.get("payload", row)
    return {**(event.get("after") or event.get("before") or {}), "op": event.get("op"), "ts_ms": event.get("ts_ms")}


def stream_name(address: str) -> str:
    """What SQL calls a stream: the last part of the address that has letters."""
    parts = [part for part in re.split(r"[/\\]", address.partition("://")[2] or address) if part and part != "."]
    plain = [part for part in parts if not set(part) & set("*?[{=")] or ["events"]
    stem = plain[-1].partition(".")[0] or "events"
    name = re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_").lower()
    name = re.sub(r"_?\d+$", "", name) or name
    if not name or name[0].isdigit():
        name = f"stream_{name}" if name else "events"
    return "events" if name in _RESERVED else name


_RESERVED = frozenset({"data", "table", "select", "from", "order", "group", "in", "input", "window", "values", "out"})
