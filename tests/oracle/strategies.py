"""What hypothesis draws: queries of every kind, rows of every sort, and the micro-batches they come in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from itertools import count, pairwise
from typing import Any, Literal

from hypothesis import strategies as st

from tests.oracle.running import Move, Scenario, push
from tests.oracle.spec import (
    RATIO,
    Aggregate,
    Aligned,
    Calendar,
    Condition,
    Counted,
    Cumulated,
    Plain,
    Query,
    Session,
    Sliding,
    Stated,
    TimeWindow,
    Unreadable,
    Window,
)

MS = 1000
YEAR = 365 * 86_400 * 1_000_000

widths = st.integers(1, 5).map(lambda ms: ms * MS)
conditions = st.builds(
    Condition, st.sampled_from(["a", "n"]), st.sampled_from([">=", "<", "="]), st.integers(-1, 3)
)  # fmt: skip
some_condition = st.sampled_from([False, False, False, True]).flatmap(lambda drawn: conditions if drawn else st.none())
partitions = st.sampled_from([(), ("k",), ("n",), ("k", "x")])

offsets = st.sampled_from([0, 0, 1, -2, 5]).map(lambda ms: ms * MS)
aligned = st.builds(Aligned, widths, st.none() | widths, offsets)
cumulated = st.builds(Cumulated, widths, st.integers(1, 4), offsets)
calendars = st.builds(
    Calendar,
    st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "America/Havana"]),
    st.sampled_from(["day", "day", "week", "month"]),
    st.integers(1, 3),
    st.none() | st.integers(1, 4),
)
sessions = st.builds(Session, widths)
sliding = st.builds(Sliding, widths, st.none() | st.integers(0, 4).map(lambda ms: ms * MS), partitions, some_condition)
counted = st.builds(Counted, st.integers(1, 4), st.integers(1, 5), partitions)
plain = st.just(Plain())
stated = st.builds(Stated, conditions, some_condition, partitions)

windows_with_bounds = st.one_of(aligned, cumulated, sessions, sliding, counted, stated)
any_window = st.one_of(windows_with_bounds, plain)

_FUNCTIONS = [
    ("count", (None, "a", "k", "x")),
    ("sum", ("a", "f", "d", RATIO)),
    ("avg", ("a", "f", "d", RATIO)),
    ("min", ("a", "f", "d", "k")),
    ("max", ("a", "f", "d", "k")),
    ("first", ("a", "k")),
    ("last", ("a", "f")),
    ("collect_list", ("a", "k", "f")),
    ("stddev", ("a", "f")),
    ("bit_xor", ("a",)),
    ("mode", ("a", "k")),
    ("listagg", ("k",)),
]
_TAKE_DISTINCT = ("count", "sum", "avg", "min", "bit_xor", "listagg")


@st.composite
def aggregates(draw: st.DrawFn) -> Aggregate:
    function, columns = draw(st.sampled_from(_FUNCTIONS))
    column = draw(st.sampled_from(columns))
    distinct = column is not None and function in _TAKE_DISTINCT and draw(st.booleans())
    return Aggregate(function, column, distinct, draw(st.none() | conditions))


KEYS = st.sampled_from([(), ("k",), ("n",), ("x",), ("k", "n"), ("n", "x")])


@st.composite
def groupings(draw: st.DrawFn, window: Window) -> dict[str, Any]:
    """Keys and aggregates, or the rows themselves."""
    if isinstance(window, Plain) or draw(st.integers(0, 5)) == 0:
        return {}
    calls = tuple(draw(st.lists(aggregates(), min_size=1, max_size=4)))
    keys = draw(KEYS)
    if isinstance(window, Sliding | Counted | Stated):
        keys = tuple(dict.fromkeys((*window.partition_by, *keys)))
    having = draw(st.sampled_from([None, None, None, 1, 2]))
    return {"keys": keys, "aggregates": calls, "having_rows": having}


@st.composite
def timings(draw: st.DrawFn, window: Window) -> dict[str, Any]:
    """Settings of time that go with the window."""
    lag = draw(st.sampled_from([0, 0, 1, 3, 10])) * MS
    settings: dict[str, Any] = {"data_driven": draw(st.sampled_from([True, True, False])), "lag_us": lag}
    settings["streams"] = draw(st.sampled_from([("s",), ("s",), ("s", "t")]))
    if draw(st.integers(0, 3)) == 0:
        settings["max_future_skew_us"] = draw(st.sampled_from([0, 2, 10])) * MS
    if draw(st.integers(0, 3)) == 0:
        settings["idle_timeout_us"] = draw(st.sampled_from([1, 5])) * MS
    if isinstance(window, TimeWindow | Session):
        settings["row_rule"] = draw(st.sampled_from([False, False, True]))
        if not settings["row_rule"]:
            settings["lateness_us"] = draw(st.sampled_from([0, 0, 1, 4])) * MS
    return settings


@st.composite
def limits(draw: st.DrawFn, window: Window, grouping: dict[str, Any]) -> dict[str, Any]:
    """Emission, dedupe and quota, where they have a meaning."""
    settings: dict[str, Any] = {}
    if grouping and isinstance(window, TimeWindow | Session):
        settings["emit"] = draw(st.sampled_from(["close", "close", "update", "every"]))
        settings["every_us"] = 3 * MS if settings["emit"] == "every" else 0
    if isinstance(window, TimeWindow) and grouping.get("keys"):
        settings["max_groups"] = draw(st.sampled_from([None, None, 1, 2]))
    if draw(st.integers(0, 4)) == 0:
        settings["dedupe_by"] = draw(st.sampled_from([("a",), ("k", "x")]))
        settings["dedupe_within_us"] = draw(widths)
    return settings


@st.composite
def queries(draw: st.DrawFn, windows: st.SearchStrategy[Any]) -> Query:
    window = draw(windows)
    grouping = draw(groupings(window))
    by_clock = not isinstance(window, Plain) and draw(st.integers(0, 7)) == 0
    timing = {"by_clock": True} if by_clock else draw(timings(window))
    return Query(window, **grouping, where=draw(some_condition), **timing, **draw(limits(window, grouping)))


@st.composite
def fusable(draw: st.DrawFn) -> Query:
    """Sliding windows whose groups are their partitions, with aggregates that can be computed over ranges."""
    window = draw(sliding)
    calls = draw(st.lists(aggregates().filter(_ranged), min_size=1, max_size=3))
    return Query(window, window.partition_by, tuple(calls), draw(some_condition), **draw(timings(window)))


def _ranged(call: Aggregate) -> bool:
    return call.function not in ("collect_list", "mode", "listagg") and not call.distinct


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.none())


def mostly(values: st.SearchStrategy[Any], seldom: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What hides the rest must be rare: one NaN makes every sum a NaN, one row far ahead makes all others late."""
    return st.integers(0, 23).flatmap(lambda drawn: seldom if drawn == 23 else values)


SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324]
ints = mostly(st.integers(-1, 3), st.sampled_from([2**62, 2**63 - 1, -(2**63)]))
floats = mostly(st.sampled_from([0.5, 1.25, -3.0, 0.1, 1e9]), st.sampled_from(SPECIAL))
decimals = st.integers(-500, 500).map(lambda cents: Decimal(cents) / 100)
times = st.integers(-2, 12).map(lambda step: step * MS) | st.integers(-4, 24).map(lambda step: step * MS // 2)
far = st.sampled_from([YEAR, -YEAR, -20 * MS, 200 * MS])
instants = mostly(times, st.builds(lambda base, step: base + step, far, times))
ROWS = st.fixed_dictionaries(
    {
        "ts": mostly(instants, st.sampled_from([None, Unreadable("soon")])),
        "k": or_null(st.sampled_from(["u", "v", ""])),
        "n": or_null(st.integers(0, 2)),
        "x": or_null(st.sampled_from([0.0, -0.0, math.nan, 1.5])),
        "a": mostly(or_null(ints), st.just(Unreadable("many"))),
        "f": or_null(floats),
        "d": or_null(decimals),
        "b": or_null(st.booleans()),
    }
)


@st.composite
def scenarios(draw: st.DrawFn, asked: st.SearchStrategy[Query]) -> Scenario:
    """A query and up to eight micro-batches, put down and taken up again where the flags say."""
    query = draw(asked)
    kinds = ["push"] * 5 + ["clock"] + ["watermark"] * (0 if query.by_clock else 1 if query.data_driven else 4)
    # In processing time no two micro-batches have one timestamp: a window of an instant is complete with its batch.
    ticks = st.sampled_from([1, 2, 7] if query.by_clock else [0, 1, 2, 7])
    moves: list[Move] = []
    clock = 0
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=8)):
        clock += 0 if kind == "watermark" else draw(ticks) * MS
        move = _MOVES[kind](draw, clock, query.streams)
        moves.append(replace(move, restore=draw(st.sampled_from([False, False, False, True]))))
    moves += [Move("end")] if draw(st.sampled_from([True, True, False])) else []
    return Scenario(query, numbered(moves))


HOUR = 3_600_000_000
CHANGES = [1_711_846_800, 1_729_990_800, 1_541_300_400, 1_518_919_200, 1_325_239_200, 1_699_160_400, -86_400]
"""Seconds near which clocks of the zones of `calendars` change; and the day before 1970."""


@st.composite
def stretched(draw: st.DrawFn, asked: st.SearchStrategy[Scenario]) -> Scenario:
    """The same scenario, with hours for milliseconds, near a change of clocks."""
    scenario, base = draw(asked), draw(st.sampled_from(CHANGES)) * 1_000_000

    def long(us: int | None) -> int | None:
        return us if us is None else us // MS * 5 * HOUR

    def later(us: Any) -> Any:
        return base + min(max(us, -30 * MS), 300 * MS) * 5 * HOUR // MS if isinstance(us, int) else us

    query = scenario.query
    durations = ("every_us", "lag_us", "lateness_us", "max_future_skew_us", "idle_timeout_us", "dedupe_within_us")
    changed: dict[str, Any] = {name: long(getattr(query, name)) for name in durations}
    query = replace(query, **changed)
    moves = [
        replace(
            move,
            at=later(move.at) if move.kind == "watermark" else max(base, 0) + move.at // MS * 5 * HOUR,
            rows=tuple(tuple((dict(row) | {"ts": later(dict(row)["ts"])}).items()) for row in move.rows),
        )
        for move in scenario.moves
    ]
    return Scenario(query, tuple(moves))


def _push(draw: st.DrawFn, clock: int, streams: tuple[str, ...]) -> Move:
    shard = f"{draw(st.sampled_from(streams))}/{draw(st.sampled_from([0, 0, 1]))}"
    return push(draw(st.lists(ROWS, max_size=6)), at=clock, shard=shard)


_MOVES: dict[str, Callable[[st.DrawFn, int, tuple[str, ...]], Move]] = {
    "watermark": lambda draw, _clock, _streams: Move("watermark", draw(instants)),
    "clock": lambda _draw, clock, _streams: Move("clock", clock),
    "push": _push,
}


def numbered(moves: Iterable[Move]) -> tuple[Move, ...]:
    """The same moves, each row with an `id` of its own."""
    numbers = count()
    return tuple(
        replace(move, rows=tuple(tuple((row | {"id": next(numbers)}).items()) for row in move.events)) for move in moves
    )


@st.composite
def ended_scenarios(draw: st.DrawFn, windows: st.SearchStrategy[Any], *, emit: Literal["update"]) -> Scenario:
    """Aggregates without HAVING or overflow, to a graceful end."""
    window = draw(windows)
    calls = draw(st.lists(aggregates().filter(lambda call: (call.function, call.column) != ("sum", "a")), min_size=1))
    query = Query(window, draw(KEYS), tuple(calls[:3]), draw(some_condition), emit=emit, **draw(timings(window)))
    drawn = draw(scenarios(st.just(query)))
    moves = [replace(move, restore=False) for move in drawn.moves if move.kind != "end"]
    return Scenario(query, (*moves, Move("end")))


@st.composite
def punctual_scenarios(draw: st.DrawFn, windows: st.SearchStrategy[Any]) -> Scenario:
    """No row is late: either they come in order and the lag covers equal times, or the lag covers them all."""
    query = draw(queries(windows))
    in_order = draw(st.booleans())
    query = replace(
        query, by_clock=False, data_driven=True, row_rule=False, lag_us=1 if in_order else 60 * MS,
        max_future_skew_us=None, idle_timeout_us=None, dedupe_by=(), emit="close", streams=("s",),
    )  # fmt: skip
    near = ROWS.map(lambda row: row | {"ts": row["ts"] if isinstance(row["ts"], int) else 0})
    rows = draw(st.lists(near, max_size=15))
    rows = sorted(rows, key=lambda row: row["ts"]) if in_order else [_brought_near(row) for row in rows]
    return Scenario(query, (*numbered([push(rows)]), Move("end")))


def _brought_near(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"ts": row["ts"] % (30 * MS)}


@st.composite
def cut_anew(draw: st.DrawFn, moves: tuple[Move, ...]) -> list[Move]:
    """The pushes of `moves` in smaller ones."""
    cut: list[Move] = []
    for move in moves:
        places = sorted(draw(st.sets(st.integers(1, max(len(move.rows) - 1, 1))))) if len(move.rows) > 1 else []
        bounds = [0, *places, len(move.rows)]
        cut += [replace(move, rows=move.rows[low:high]) for low, high in pairwise(bounds)]
    return cut
