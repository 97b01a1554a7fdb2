"""The schema of sample files as Spark DDL, without Spark, and the values that do not fit it."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from windowpane.errors import ConfigError
from windowpane.sql.types import from_arrow, quoted

_SHOWN = 10
_LONGS = range(-(2**63), 2**63)
_NUMBERS = ("BIGINT", "DOUBLE")
Place: TypeAlias = tuple[str, int]
"""A file and the line in it."""


@dataclass(frozen=True)
class Misfit:
    """A value that the schema cannot hold, or a line that cannot be read at all (without a column)."""

    file: str
    line: int
    column: str | None
    type: str | None
    value: str

    def render(self) -> str:
        what = f"`{self.column}` is {self.value}, not {self.type}" if self.column else f"cannot be read: {self.value}"
        return f"{self.file}:{self.line}: {what}"


@dataclass(frozen=True)
class Sample:
    """The schema of sample files, with the values that do not fit it."""

    ddl: str
    rows: int
    misfits: tuple[Misfit, ...]
    others: int = 0
    """How many further values do not fit."""


@dataclass
class _Seen:
    """The values of one column or field, by kind."""

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[tuple[Place, Any]]] = field(default_factory=dict)
    fields: dict[str, _Seen] = field(default_factory=dict)
    """Of structs by name; the elements of arrays under the empty name."""

    def add(self, value: Any, place: Place) -> None:
        kind = _kind(value)
        if kind is None:
            return
        self.counts[kind] += 1
        if self.counts[kind] <= _SHOWN:
            self.places.setdefault(kind, []).append((place, value))
        inner = value.items() if isinstance(value, dict) else (("", each) for each in value) if kind == "ARRAY" else ()
        for name, each in inner:
            self.fields.setdefault(name, _Seen()).add(each, place)

    def chosen(self) -> str:
        """The kind that most values have. Whole numbers are also DOUBLE, and everything is also STRING."""
        groups: Counter[str] = Counter()
        for kind, count in self.counts.items():
            groups["NUMBER" if kind in _NUMBERS else kind] += count
        best = max(groups.values(), default=0)
        winners = [kind for kind, count in groups.items() if count == best]
        if not winners or len(winners) > 1:
            return "STRING"
        return ("DOUBLE" if "DOUBLE" in self.counts else "BIGINT") if winners[0] == "NUMBER" else winners[0]

    def ddl(self) -> str:
        kind = self.chosen()
        if kind == "ARRAY":
            return f"ARRAY<{self.fields[''].ddl() if '' in self.fields else 'STRING'}>"
        if kind == "STRUCT":
            inner = ", ".join(f"{quoted(name)}: {seen.ddl()}" for name, seen in self.fields.items() if name)
            return f"STRUCT<{inner}>" if inner else "STRING"
        return kind

    def misfits(self, column: str) -> Iterator[tuple[Misfit | None, int]]:
        """Values that `ddl` does not hold, and how many more there are of the kind."""
        chosen = self.chosen()
        fitting = {chosen, "BIGINT"} if chosen == "DOUBLE" else {chosen}
        for kind, count in self.counts.items():
            if chosen != "STRING" and kind not in fitting:
                for (file, line), value in self.places[kind]:
                    written = json.dumps(value, ensure_ascii=False)[:60]
                    yield Misfit(file, line, column=column, type=self.ddl(), value=written), 0
                yield None, count - len(self.places[kind])
        if chosen in ("ARRAY", "STRUCT"):
            for name, seen in self.fields.items():
                yield from seen.misfits(f"{column}.{name}" if name else f"{column}[]")


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if value in _LONGS else "DOUBLE"
    kinds = {float: "DOUBLE", str: "STRING", list: "ARRAY", dict: "STRUCT"}
    return kinds.get(type(value))


def sample_files(paths: Sequence[Path], rows: int) -> Sample:
    """The schema of files, folders included, from at most so many rows of each file."""
    files = [file for path in paths for file in _files(path)]
    columnar = [file for file in files if _suffix(file) in _COLUMNAR]
    if columnar:
        return _columnar(columnar)
    found = sample_records(
        ((str(file), line), row) for file in files for line, row in islice(_READERS[_suffix(file)](file), rows)
    )
    if not found.ddl:
        raise ConfigError("NO_ROWS", f"no row can be read from {', '.join(map(str, paths))}", "name a file with rows")
    return found


def sample_records(records: Iterable[tuple[Place, object]]) -> Sample:
    """The schema of records with their places. What is not a dict is a record that cannot be read."""
    seen, count, broken = _Seen(), 0, []
    for (file, line), row in records:
        count += 1
        if isinstance(row, dict):
            seen.add(row, (file, line))
        else:
            broken.append(Misfit(file, line, column=None, type=None, value=str(row)[:60]))
    return _sampled(seen, count, broken)


def _sampled(seen: _Seen, count: int, broken: list[Misfit]) -> Sample:
    columns = {name: each for name, each in seen.fields.items() if name}
    found = [pair for name, each in columns.items() for pair in each.misfits(name)]
    shown = [misfit for misfit, _ in found if misfit is not None] + broken
    others = sum(more for _, more in found) + max(len(shown) - _SHOWN, 0)
    ddl = ", ".join(f"{quoted(name)} {each.ddl()}" for name, each in columns.items())
    return Sample(ddl, count, tuple(shown[:_SHOWN]), others)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise ConfigError("FILE_UNREADABLE", f"there is no file or folder `{path}`")
    inside = [each for each in sorted(path.rglob("*")) if each.is_file()] if path.is_dir() else [path]
    known = [file for file in inside if _suffix(file) in {**_READERS, **_COLUMNAR}]
    if not known:
        valid = ", ".join(f".{suffix}" for suffix in (*_READERS, *_COLUMNAR))
        raise ConfigError("UNKNOWN_FORMAT", f"`{path}` is no file of a format that has a schema", f"endings: {valid}")
    return known


def _suffix(file: Path) -> str:
    return file.name.removesuffix(".gz").rpartition(".")[2].lower()


def _open(file: Path) -> IO[str]:
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8-sig", errors="replace")
    return file.open(encoding="utf-8-sig", errors="replace", newline="")


def _json_rows(file: Path) -> Iterator[tuple[int, object]]:
    with _open(file) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError:
                    yield number, line.strip()


def _csv_rows(file: Path) -> Iterator[tuple[int, object]]:
    """Rows by the names in the first line; `_c0` and so on, as Spark calls them, where it holds a number."""
    with _open(file) as lines:
        reader = csv.reader(lines)
        first = next(reader, [])
        named = not any(isinstance(csv_cell(cell), (int, float)) for cell in first)
        header = first if named else [f"_c{index}" for index in range(len(first))]
        for row in reader if named else iter([first, *reader]):
            cells = dict(zip(header, map(csv_cell, row), strict=False))
            yield reader.line_num, cells if len(row) == len(header) else ",".join(row)


def csv_cell(text: str) -> object:
    """A field of CSV as the value that it looks like."""
    if text == "":
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text) if "_" not in text else text
        except ValueError:
            continue
    return text


def _columnar(files: Sequence[Path]) -> Sample:
    """Files that carry their schema: the first one's."""
    schema = _COLUMNAR[_suffix(files[0])](files[0])
    ddl = ", ".join(f"{quoted(each.name)} {arrow_ddl(each.type)}" for each in schema)
    return Sample(ddl, 0, ())


def arrow_ddl(kind: pa.DataType) -> str:
    """The Spark type of a column of Arrow or parquet."""
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{quoted(each.name)}: {arrow_ddl(each.type)}' for each in kind)}>"
    if pa.types.is_map(kind):
        return f"MAP<{arrow_ddl(kind.key_type)}, {arrow_ddl(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{arrow_ddl(kind.value_type)}>"
    if pa.types.is_dictionary(kind):
        return arrow_ddl(kind.value_type)
    unsigned = {pa.uint8(): "SMALLINT", pa.uint16(): "INT", pa.uint32(): "BIGINT", pa.uint64(): "DECIMAL(20,0)"}
    return unsigned.get(kind) or from_arrow(kind) or "STRING"


def _arrow_schema(file: Path) -> pa.Schema:
    with pa.memory_map(str(file)) as source:
        try:
            return pa.ipc.open_file(source).schema
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).schema


_READERS: dict[str, Callable[[Path], Iterator[tuple[int, object]]]] = {
    "json": _json_rows,
    "jsonl": _json_rows,
    "ndjson": _json_rows,
    "csv": _csv_rows,
}
_COLUMNAR: dict[str, Callable[[Path], pa.Schema]] = {
    "parquet": pq.read_schema,
    "arrow": _arrow_schema,
}
