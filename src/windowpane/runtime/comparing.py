"""Compares the results of a batch with those that a stream has emitted, window by window and group by group."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from windowpane.connectors.read_back import ORDER, ReadBack
from windowpane.connectors.sinks import EMIT_EPOCH, GROUP_KEY, IDENTITY, WINDOW_ID
from windowpane.core.time_range import TimeRange
from windowpane.evaluation.duckdb_tables import connect
from windowpane.plan.stages import StageGraph
from windowpane.time import to_datetime

Kind: TypeAlias = Literal["missing", "extra", "differs"]
"""Only the batch has the result, only the stream has it, or both have other values."""
_STARTS = ("trigger_time", "window_start")
_WINDOW = (*_STARTS, "window_end", "window_time", "window_id")
_EMISSION = ("emit_epoch", "is_final")
"""What depends on the micro-batches of a stream."""
TOLERANCE = 1e-9
"""Sums of floats differ by how rows were cut into batches, by much less than this part of them."""


@dataclass(frozen=True)
class Difference:
    """A window and group with another result. `start_us` and `end_us`: of the window, where they are known."""

    kind: Kind
    key: Mapping[str, Any]
    expected: Mapping[str, Any] | None
    emitted: Mapping[str, Any] | None
    start_us: int | None = None
    end_us: int | None = None


@dataclass(frozen=True)
class Compared:
    """How many results of the batch were compared, and all that differ."""

    results: int
    differences: Sequence[Difference]


@dataclass(frozen=True)
class ComparedColumns:
    """Which columns of results name the window and group, and which are values."""

    keys: tuple[str, ...]
    named: tuple[str, ...]
    """Columns of the query that name them for people."""
    values: tuple[str, ...]
    start: str | None
    """The column by which results belong to the range."""
    end: str | None
    epoch: str | None
    """The column that counts emissions, if the query selects it."""
    updates: bool
    """Windows are emitted several times, and the last emission counts."""
    complete: bool
    """`keys` name each group."""

    @classmethod
    def of(cls, stages: StageGraph, names: Collection[str]) -> ComparedColumns:
        """`names`: the columns of the results, with IDENTITY if the sink keeps it."""
        result, aggregation = stages.result, stages.window.aggregation
        at = {output.expr.text: output.name for output in reversed(result.outputs)}
        groups = [key.name for key in result.keys]
        identified = WINDOW_ID in names
        own = [output.name for output in result.outputs if output.expr.text in (*_WINDOW, *groups)]
        apart = {*own, *IDENTITY, *(at[name] for name in _EMISSION if name in at)}
        return cls(
            keys=(WINDOW_ID, GROUP_KEY) if identified else tuple(own),
            named=tuple(own),
            values=tuple(output.name for output in result.outputs if output.name not in apart),
            start=next((at[name] for name in _STARTS if name in at), None),
            end=at.get("window_end"),
            epoch=EMIT_EPOCH if identified else at.get("emit_epoch"),
            updates=aggregation is not None and aggregation.emit.mode != "close",
            complete=identified or all(name in at for name in groups),
        )


def compare(read: ReadBack, columns: ComparedColumns, asked: TimeRange) -> Compared:
    """All results that differ. Results of the stream count if their window starts in the range."""
    connection = connect()
    emitted = read.emitted
    if ORDER not in emitted.schema.names:
        emitted = emitted.append_column(ORDER, pa.nulls(emitted.num_rows, pa.int64()))
    connection.register("expected", read.expected)
    connection.register("emitted", emitted)
    found = connection.sql(_query(read.expected.schema, columns, asked)).to_arrow_table()
    shown = [name for name in read.expected.schema.names if name not in IDENTITY]
    differences = [_difference(row, columns, shown) for row in found.to_pylist()]
    return Compared(read.expected.num_rows, differences)


def _query(schema: pa.Schema, columns: ComparedColumns, asked: TimeRange) -> str:
    keys, names = columns.keys, [*schema.names]
    inside = _inside(schema, columns, asked)
    last = ", ".join([*([f"{_q(columns.epoch)} DESC"] if columns.epoch in names else []), f"{ORDER} DESC"])
    latest = f"QUALIFY row_number() OVER ({_partition(keys)} ORDER BY {last}) = 1" if columns.updates else ""
    order = f"ORDER BY {', '.join(map(_q, columns.values))}" if columns.values else ""
    numbered = f"row_number() OVER ({_partition(keys)} {order}) AS _n"
    same = [_same(name, schema.field(name).type) for name in columns.values]
    on = [f"e.{_q(name)} IS NOT DISTINCT FROM s.{_q(name)}" for name in keys]
    sides = [f"{side}.{_q(name)} AS {_q(f'{side}.{name}')}" for side in ("e", "s") for name in names]
    times = [f"coalesce({_micros(schema, 'e', name)}, {_micros(schema, 's', name)}) AS {label}"
             for name, label in ((columns.start, "_start_us"), (columns.end, "_end_us")) if name]  # fmt: skip
    return f"""
        WITH kept AS (SELECT * FROM emitted WHERE {inside} {latest}),
        e AS (SELECT *, {numbered} FROM expected), s AS (SELECT *, {numbered} FROM kept)
        SELECT {", ".join([*sides, *times, "e._n AS _e", "s._n AS _s"])}
        FROM e FULL JOIN s ON {" AND ".join([*on, "e._n = s._n"])}
        WHERE e._n IS NULL OR s._n IS NULL OR NOT ({" AND ".join(same) or "TRUE"})
        ORDER BY {", ".join(["_start_us", *_coalesced(keys)] if columns.start else _coalesced(keys)) or "1"}
    """


def _inside(schema: pa.Schema, columns: ComparedColumns, asked: TimeRange) -> str:
    """Without a start, only windows that the batch has are compared."""
    if columns.start is None:
        return f"{_q(columns.keys[0])} IN (SELECT {_q(columns.keys[0])} FROM expected)" if columns.keys else "TRUE"
    at = _micros(schema, "emitted", columns.start)
    bounds = [(">=", asked.from_us), ("<", asked.to_us)]
    return " AND ".join(f"{at} {sign} {us}" for sign, us in bounds if us is not None) or "TRUE"


def _partition(keys: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(map(_q, keys))}" if keys else ""


def _coalesced(keys: Sequence[str]) -> list[str]:
    return [f"coalesce(e.{_q(name)}, s.{_q(name)})" for name in keys]


def _micros(schema: pa.Schema, side: str, name: str) -> str:
    """An instant in microseconds. PostgreSQL's rows have it so already."""
    column = f"{side}.{_q(name)}"
    return column if pa.types.is_integer(schema.field(name).type) else f"epoch_us({column})"


def _same(name: str, kind: pa.DataType) -> str:
    ours, theirs = f"e.{_q(name)}", f"s.{_q(name)}"
    equal = f"{ours} IS NOT DISTINCT FROM {theirs}"
    if not pa.types.is_floating(kind):
        return equal
    near = f"abs({ours} - {theirs}) <= {TOLERANCE} * greatest(abs({ours}), abs({theirs}))"
    return f"({equal} OR coalesce({near}, FALSE))"


def _difference(row: Mapping[str, Any], columns: ComparedColumns, shown: Sequence[str]) -> Difference:
    expected = {name: row[f"e.{name}"] for name in shown} if row["_e"] is not None else None
    emitted = {name: row[f"s.{name}"] for name in shown} if row["_s"] is not None else None
    kind: Kind = "missing" if emitted is None else "extra" if expected is None else "differs"
    there = expected or emitted or {}
    times = (columns.start, columns.end)
    key = {name: _instant(there[name]) if name in times else there[name] for name in columns.named}
    return Difference(kind, key, expected, emitted, row.get("_start_us"), row.get("_end_us"))


def _instant(value: Any) -> Any:
    """A time that PostgreSQL's rows have in microseconds."""
    with contextlib.suppress(OverflowError):
        return to_datetime(value) if isinstance(value, int) else value
    return value


def _q(name: str | None) -> str:
    return '"' + (name or "").replace('"', '""') + '"'
