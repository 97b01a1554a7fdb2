"""Sample records that are read one by one: CSV lines, and JSON whose columns the columnar scan does not read."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from windowpane.errors import ConfigError
from windowpane.remote.input_file import InputFile
from windowpane.scan.csv.dialect import OPTIONS, dialect_of
from windowpane.scan.csv.tokenizing import fields_of
from windowpane.sql.query import Column
from windowpane.sql.types import field_types, parts_of
from windowpane.testing.decode import Decoded, decode

_JSON_LEAVES = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING")
CSV_TYPES = (*_JSON_LEAVES, "DATE", "TIMESTAMP")
_LONG = re.compile(r"[+-]?\d{1,19}")
_BOM = "\ufeff"


def lines_of(file: InputFile, count: int, *, blank: bool = False) -> Iterator[str]:
    """At most so many lines of a file, decompressed by its extension. `blank`: those without text too."""
    with file.stream() as stream:
        held, first = b"", True
        while count > 0:
            chunk = stream.read(1 << 16)
            whole = held + chunk
            *ended, held = re.split(rb"\r\n|\n|\r(?!$)", whole) if chunk else [*([whole] if whole else []), b""]
            for line in ended:
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                text, first = (text.removeprefix(_BOM) if first else text), False
                if (text.strip() or blank) and count > 0:
                    count -= 1
                    yield text
            if not chunk:
                return


def why_not_json(columns: Iterable[Column]) -> str | None:
    """Why only Spark reads these columns from JSON; None if they are read here."""
    for column in columns:
        odd = next((leaf for leaf in _leaves(column.type) if leaf not in _JSON_LEAVES), None)
        if odd is not None:
            return f"column `{column.name}` is {column.type}, and only Spark reads {odd} from JSON"
    return None


def _leaves(kind: str) -> list[str]:
    if kind.startswith("STRUCT<"):
        return [leaf for inner in field_types(kind).values() for leaf in _leaves(inner)]
    if kind.startswith("ARRAY<"):
        return [leaf for inner in parts_of(kind) for leaf in _leaves(inner)]
    return [kind]


def json_records(texts: Iterable[str | None], columns: Sequence[Column]) -> Decoded:
    """Records with nested columns. A text that is no object is bad, and so is one with a value that does not fit."""
    rows: list[Mapping[str, object]] = []
    bad: dict[int, str] = {}
    types = {column.name: column.type for column in columns}
    for number, text in enumerate(texts):
        try:
            read = json.loads(text or "")
        except ValueError:
            read = None
        row = {name.lower(): value for name, value in read.items()} if isinstance(read, dict) else {}
        if not isinstance(read, dict):
            bad[number] = text or ""
        rows.append({name: _fitted(row.get(name.lower()), kind) for name, kind in types.items()})
    return _with_bad(decode(rows, columns), bad)


def _fitted(value: object, kind: str) -> object:
    """A value of JSON as Spark would read it: everything is also text, and no number is a boolean."""
    if value is None:
        return None
    if kind == "STRING" and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if kind.startswith("STRUCT<") and isinstance(value, dict):
        by_name = {name.lower(): each for name, each in value.items()}
        return {name.lower(): _fitted(by_name.get(name.lower()), inner) for name, inner in field_types(kind).items()}
    if kind.startswith("ARRAY<") and isinstance(value, list):
        return [_fitted(each, parts_of(kind)[0]) for each in value]
    if isinstance(value, bool) != (kind == "BOOLEAN"):
        return _Misfit(value)
    return value


class _Misfit:
    """A value that no column holds."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return repr(self._value)


class CsvRecords:
    """Reads lines of CSV by the options of Spark's reader that say how a line is divided."""

    known = OPTIONS | {"multiline"}

    def __init__(self, options: Mapping[str, str], columns: Sequence[Column]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        odd = sorted(set(given) - self.known)
        if odd or given.get("multiline", "false") != "false":
            option = odd[0] if odd else "multiLine"
            raise ConfigError("NEEDS_SPARK", f"only Spark reads CSV files with the option {option}")
        wrong = next((column for column in columns if column.type not in CSV_TYPES), None)
        if wrong is not None:
            raise ConfigError("NEEDS_SPARK", f"only Spark reads `{wrong.name}`, a {wrong.type}, from CSV files")
        try:
            self.dialect = dialect_of(given)
        except ValueError as unknown:
            raise ConfigError("NEEDS_SPARK", f"only Spark reads these CSV files: {unknown}") from unknown
        self._columns = columns

    def decode(self, lines: Sequence[str]) -> Decoded:
        """Records of the lines; one with another number of fields, or with a value that does not fit, is bad."""
        rows: list[Mapping[str, object]] = []
        bad: dict[int, str] = {}
        for number, line in enumerate(lines):
            cells = [self.dialect.null if cell is None else cell for cell in fields_of(line, self.dialect)]
            values = [self._value(cell, column.type) for cell, column in zip(cells, self._columns, strict=False)]
            if len(cells) != len(self._columns) or any(isinstance(value, _Misfit) for value in values):
                bad[number] = line
            named = zip(self._columns, values, strict=False)
            rows.append({column.name: None if isinstance(value, _Misfit) else value for column, value in named})
        found = _with_bad(decode(rows, self._columns), bad)
        return replace(found, events=pa.array(list(lines), pa.string()))

    def _value(self, text: str, kind: str) -> object:
        """What Spark makes of a field."""
        if text == self.dialect.null:
            return None
        try:
            match kind:
                case "STRING":
                    return text
                case "BOOLEAN":
                    return {"true": True, "false": False}[text.lower()]
                case "FLOAT" | "DOUBLE":
                    return float(text) if "_" not in text else _Misfit(text)
                case "DATE":
                    return dt.date.fromisoformat(text)
                case "TIMESTAMP":
                    found = dt.datetime.fromisoformat(text)
                    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
            return int(text) if _LONG.fullmatch(text) else _Misfit(text)
        except (ValueError, KeyError):
            return _Misfit(text)


def _with_bad(decoded: Decoded, bad: Mapping[int, str]) -> Decoded:
    problems = [bad.get(number, problem) for number, problem in enumerate(decoded.problems)]
    return replace(decoded, problems=problems)
