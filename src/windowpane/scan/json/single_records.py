"""Reads a single JSON record exactly as Spark does, for records that Arrow does not parse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from windowpane.scan.json.values import Fields, record_fields, rewritten

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_NON_FINITE = {
    "NaN": math.nan, "+INF": math.inf, "Infinity": math.inf, "+Infinity": math.inf, "-INF": -math.inf,
    "-Infinity": -math.inf,
}  # fmt: skip
_WHITE = b" \t\n\r"
_NOTHING: tuple[dict[str, object], bool] = {}, False
Reader: TypeAlias = Callable[[object], object]
"""Converts a JSON value other than null to the column's type; ValueError if it does not fit."""


class RecordReader:
    """Reads one record as Spark does: its fields, and whether it is good.

    A bad object still has those of its fields that fit. A record that is not an object has no fields.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._readers = {field.name: _reader(field.type) for field in schema}

    def __call__(self, record: bytes) -> tuple[dict[str, object], bool]:
        if b"}" not in record or record.lstrip(_WHITE)[:1] != b"{":
            return _NOTHING
        try:
            return self._fields(record_fields(record.decode("utf-8")))
        except ValueError:
            return _NOTHING

    def _fields(self, pairs: Fields) -> tuple[dict[str, object], bool]:
        """If a name repeats, the last value that fits wins."""
        found: dict[str, object] = {}
        good = True
        for name, value in pairs:
            reader = self._readers.get(name)
            if reader is None:
                continue
            try:
                found[name] = None if value is None else reader(value)
            except ValueError:
                good = False
        return found, good


def _reader(kind: pa.DataType) -> Reader:
    if pa.types.is_string(kind):
        return _text
    if pa.types.is_boolean(kind):
        return _boolean
    return _integer(_BITS[kind]) if kind in _BITS else _double


def _text(value: object) -> str:
    return _characters(value) if isinstance(value, str) else rewritten(value)


def _characters(text: str) -> str:
    """The text with `?` in place of lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _integer(bits: int) -> Reader:
    limit = 1 << (bits - 1)

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            raise ValueError("not an integer of that size")
        return value

    return read


def _double(value: object) -> float:
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")  # noqa: TRY004
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("not true or false")  # noqa: TRY004
    return value
