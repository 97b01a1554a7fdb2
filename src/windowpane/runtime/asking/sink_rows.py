"""What a transform has written to its sinks, as far as it can be read without Spark."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from windowpane.checkpoint.addresses import local_path
from windowpane.connectors.file_names import BATCH_FILE
from windowpane.errors import ConfigError
from windowpane.formats import sink_format
from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.asking.side_files import instant_of
from windowpane.runtime.location import store_at


@dataclass(frozen=True)
class WrittenFile:
    """A file that a batch has written."""

    name: str
    run: str
    batch_id: int
    data: bytes
    format: str
    options: Mapping[str, str]
    is_repair: bool = False

    def rows(self) -> list[dict[str, Any]]:
        if self.format == "json":
            return [json.loads(line) for line in self.data.decode().splitlines() if line]
        if self.format == "parquet":
            found: list[dict[str, Any]] = pa.parquet.read_table(io.BytesIO(self.data)).to_pylist()
            return found
        return _csv(self.data, header=self.options.get("header", "false").lower() == "true")

    def count(self) -> int:
        if self.format == "parquet":
            return int(pa.parquet.read_metadata(io.BytesIO(self.data)).num_rows)
        if self.format == "json":
            return sum(1 for line in self.data.splitlines() if line)
        return len(self.rows())


def _csv(data: bytes, *, header: bool) -> list[dict[str, Any]]:
    if not data.strip():
        return []
    read = pa.csv.ReadOptions(autogenerate_column_names=not header)
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    found: list[dict[str, Any]] = pa.csv.read_csv(io.BytesIO(data), read, parse).to_pylist()
    return found


def written_files(asked: Asked, sink: str, *, side: bool = False) -> Iterator[WrittenFile]:
    """The files of a sink that this checkpoint has written, in order of batches. Staged ones are not among them."""
    declared = asked.config.sinks[sink]
    path = declared.path or declared.spark_options["path"]
    folder = store_at(local_path(path) or path, asked.config.base_dir, asked.config.spark)
    runs = asked.checkpoint.runs()
    for file in sorted(folder.names()):
        found = BATCH_FILE.fullmatch(file)
        if found is None or file.startswith(".") or found[2] not in runs or not _is_of(found[1], asked.name, side=side):
            continue
        data = folder.read(file) or b""
        yield WrittenFile(
            file, found[2], int(found[3]), data, declared.format, declared.spark_options, found[1].endswith(REPAIR)
        )


REPAIR = ".repair"
"""What the names of repaired batches in sinks have behind the transform."""


def _is_of(whose: str, transform: str, *, side: bool) -> bool:
    if whose.endswith(".side") != side:
        return False
    return whose.removesuffix(".side").removesuffix(REPAIR).partition("~")[0] == transform


@dataclass(frozen=True)
class GroupResults:
    """Results of a group: how many there are in the sinks that were read, and why others were not."""

    rows: int = 0
    read: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


def results_of_group(asked: Asked, group: Mapping[str, Any], window: tuple[int, int] | None = None) -> GroupResults:
    """Count the results of a group, and of a window if given, in sinks of files."""
    names, unread = _column_names(asked, group), dict[str, str]()
    found, read = 0, list[str]()
    for sink in asked.config.transforms[asked.name].sinks:
        declared = asked.config.sinks.get(sink)
        if declared is None or sink_format(declared.format).takes_back != "files":
            unread[sink] = "given from Python" if declared is None else declared.format
            continue
        missing = [name for name, column in names.items() if column is None]
        if missing:
            unread[sink] = f"results do not have {', '.join(missing)}"
            continue
        read.append(sink)
        try:
            rows = [row for file in written_files(asked, sink) for row in file.rows()]
        except (ValueError, pa.ArrowException) as broken:
            raise ConfigError("SINK_READ", f"sink `{sink}` has a file that cannot be read: {broken}") from broken
        found += sum(_is_group(row, names, group) and _is_window(asked, row, window) for row in rows)
    return GroupResults(found, read, unread)


def _column_names(asked: Asked, group: Mapping[str, Any]) -> dict[str, str | None]:
    """The column of the results that holds each key of the group; None if the query does not select it."""
    result = asked.plan.stages.result
    at = {output.expr.text: output.name for output in reversed(result.outputs)}
    keys = {key.label: at.get(key.name) for key in result.keys}
    return {name: keys.get(name) for name in group}


def _is_group(row: Mapping[str, Any], names: Mapping[str, str | None], group: Mapping[str, Any]) -> bool:
    return all(column is not None and str(row.get(column)) == str(group[name]) for name, column in names.items())


def _is_window(asked: Asked, row: Mapping[str, Any], window: tuple[int, int] | None) -> bool:
    at = {output.expr.text: output.name for output in reversed(asked.plan.stages.result.outputs)}
    if window is None or "window_start" not in at:
        return True
    return instant_of(row.get(at["window_start"])) == window[0]


def rows_by_batch(asked: Asked, sink: str, *, side: bool = False, repaired: bool = False) -> Counter[tuple[str, int]]:
    """How many rows each batch has in a sink of files, by run and batch. `repaired`: those of repairs."""
    counts: Counter[tuple[str, int]] = Counter()
    for file in written_files(asked, sink, side=side):
        if file.is_repair != repaired:
            continue
        counts[file.run, file.batch_id] += file.count()
    return counts
