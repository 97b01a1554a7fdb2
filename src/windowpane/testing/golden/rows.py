"""Rows of golden files: tables with a header or JSON lines, read and laid out; and as a stream's schema types them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from windowpane.sql.query import Column
from windowpane.testing.golden.literals import parse_literal
from windowpane.testing.golden.values import Instant, Literal, from_json, plain_value
from windowpane.time import format_instant, to_datetime

GoldenRow = dict[str, Literal]

_UNITS_US = {"unixtimestamp_s": 1_000_000, "unixtimestamp_ms": 1_000, "unixtimestamp_us": 1}
_TEXT = ("STRING", "VARCHAR", "CHAR")
_FLOATS = ("DOUBLE", "FLOAT")


@dataclass(frozen=True)
class Line:
    """A line of a file with its number, counted from 1."""

    number: int
    text: str


class BadLineError(Exception):
    """What is wrong with a line, and what was expected instead."""

    def __init__(self, number: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.number, self.message, self.hint = number, message, hint


def parse_rows(lines: Sequence[Line]) -> tuple[list[str], list[GoldenRow]]:
    """Column names and rows. An empty cell leaves its column out of the row."""
    if lines and lines[0].text.startswith("{"):
        rows = [_json_row(line) for line in lines]
        return list(dict.fromkeys(name for row in rows for name in row)), rows
    header = [] if not lines else [cell.strip() for cell in lines[0].text.split("|")]
    if lines and (not all(header) or len(set(header)) < len(header)):
        raise BadLineError(
            lines[0].number, f"`{lines[0].text}` is not a header", "write each column's name once: ts | k | a"
        )
    return header, [_table_row(header, line) for line in lines[1:]]


def _json_row(line: Line) -> GoldenRow:
    try:
        row = json.loads(line.text)
    except ValueError as error:
        raise BadLineError(line.number, f"this is not JSON: {error}", 'write {"ts": "10s", "k": "a"}') from None
    if not isinstance(row, dict):
        raise BadLineError(line.number, "this is not a JSON object", 'write {"ts": "10s", "k": "a"}')
    return {name: from_json(value) for name, value in row.items()}


def _table_row(header: Sequence[str], line: Line) -> GoldenRow:
    cells = split_cells(line.text)
    if len(cells) != len(header):
        message = f"{len(cells)} cells under a header of {len(header)}"
        raise BadLineError(
            line.number, message, f"the columns are: {' | '.join(header)}; quote a text that contains `|`"
        )
    row = {}
    for name, cell in zip(header, cells, strict=True):
        if cell:
            try:
                row[name] = parse_literal(cell)
            except ValueError as error:
                hint = "write NULL, 1, 1.5, 10s, 2024-01-01T00:00:05Z, text, 'text', [1, 2]"
                raise BadLineError(line.number, f"`{cell}` is not a value: {error}", hint) from None
    return row


def split_cells(text: str) -> list[str]:
    """Cells between `|`, which counts only outside quotes."""
    cells, current, quoted = [], "", False
    for char in text:
        quoted ^= char == "'" and (quoted or _opens_quote(current))
        if char == "|" and not quoted:
            cells.append(current.strip())
            current = ""
        else:
            current += char
    return [*cells, current.strip()]


def _opens_quote(before: str) -> bool:
    """A quote opens a string at the start of a cell or of an item; `it's` is a word."""
    lead = before.strip()
    return not lead or lead[-1] in "[{,:'"


def lay_out(header: Sequence[str], rows: Sequence[Sequence[str]], marks: Sequence[str] = ()) -> list[str]:
    """Lines of an aligned table, each after its mark."""
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(header))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    leads = ["", *marks] if marks else [""] * len(table)
    margin = max(map(len, leads), default=0)
    return [f"{lead.ljust(margin)}{line}".rstrip() for lead, line in zip(leads, lines, strict=True)]


def to_inputs(
    rows: Sequence[GoldenRow], columns: Sequence[Column], eventtime: tuple[str, str] | None
) -> list[dict[str, object]]:
    """Rows to push: each value as its column's type says, an instant in the event-time column as its type says."""
    kinds = {column.name.lower(): column.type for column in columns}
    return [
        {
            name: _to_input(value, kinds.get(name.lower(), ""), _time_type(name, eventtime))
            for name, value in row.items()
        }
        for row in rows
    ]


def _time_type(name: str, eventtime: tuple[str, str] | None) -> str | None:
    return eventtime[1] if eventtime is not None and eventtime[0].lower() == name.lower() else None


def _to_input(literal: Literal, kind: str, time_type: str | None) -> object:
    base, value = kind.upper().partition("(")[0].partition("<")[0], literal.value
    if value is None:
        return None
    if isinstance(value, Instant) and (time_type is not None or base.startswith("TIMESTAMP")):
        return _instant_input(value.us, base, time_type)
    if base in _TEXT:
        return literal.text
    if base in _FLOATS and isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return float(value)
    if base == "DECIMAL" and isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return literal.text if isinstance(value, Instant) else plain_value(literal)


def _instant_input(us: int, base: str, time_type: str | None) -> object:
    if base == "TIMESTAMP_NTZ":
        return to_datetime(us).replace(tzinfo=None)
    if base == "TIMESTAMP":
        return to_datetime(us)
    if time_type in _UNITS_US:
        unit = _UNITS_US[time_type]
        return _in_type(us // unit if us % unit == 0 else us / unit, base)
    return format_instant(us)


def _in_type(number: float, base: str) -> object:
    if base in _TEXT:
        return str(number)
    return Decimal(str(number)) if base == "DECIMAL" else float(number) if base in _FLOATS else number
