"""What hypothesis draws: queries of every kind, rows of every sort, and the micro-batches they come in."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.oracle.running import Move, Scenario
from tests.oracle.spec import Aggregate, Aligned, Condition, Counted, Plain, Query, Session, Sliding, Stated, Window

MS = 1000
YEAR = 365 * 86_400 * 1_000_000

widths = st.integers(1, 8).map(lambda ms: ms * MS)
conditions = st.builds(
    Condition, st.sampled_from(["a", "n"]), st.sampled_from([">=", "<", "="]), st.integers(-1, 3)
)  # fmt: skip
some_condition = st.none() | conditions
partitions = st.sampled_from([(), ("k",), ("n",), ("k", "x")])

aligned = st.builds(
    Aligned, widths, st.none() | widths, st.sampled_from([0, 0, 1, -2, 5]).map(lambda ms: ms * MS)
)  # fmt: skip
sessions = st.builds(Session, widths)
sliding = st.builds(Sliding, widths, st.none() | st.integers(0, 4).map(lambda ms: ms * MS), partitions, some_condition)
counted = st.builds(Counted, st.integers(1, 4), st.integers(1, 5), partitions)
plain = st.just(Plain())
stated = st.builds(Stated, conditions, some_condition, partitions)

_FUNCTIONS = [
    ("count", (None, "a", "k", "x")),
    ("sum", ("a", "f", "d")),
    ("avg", ("a", "f", "d")),
    ("min", ("a", "f", "d", "k")),
    ("max", ("a", "f", "d", "k")),
    ("first", ("a", "k")),
    ("last", ("a", "f")),
    ("collect_list", ("a", "k", "f")),
    ("stddev", ("a", "f")),
]
_TAKE_DISTINCT = ("count", "sum", "avg", "min")


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
    if draw(st.integers(0, 3)) == 0:
        settings["max_future_skew_us"] = draw(st.sampled_from([0, 2, 10])) * MS
    if draw(st.integers(0, 3)) == 0:
        settings["idle_timeout_us"] = draw(st.sampled_from([1, 5])) * MS
    if isinstance(window, Aligned | Session):
        settings["row_rule"] = draw(st.sampled_from([False, False, True]))
        if not settings["row_rule"]:
            settings["lateness_us"] = draw(st.sampled_from([0, 0, 1, 4])) * MS
    return settings


@st.composite
def limits(draw: st.DrawFn, window: Window, grouping: dict[str, Any]) -> dict[str, Any]:
    """Emission, dedupe and quota, where they have a meaning."""
    settings: dict[str, Any] = {}
    if grouping and isinstance(window, Aligned | Session):
        settings["emit"] = draw(st.sampled_from(["close", "close", "update", "every"]))
        settings["every_us"] = 3 * MS if settings["emit"] == "every" else 0
    if isinstance(window, Aligned) and grouping.get("keys"):
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
    return Query(window, **grouping, where=draw(st.none() | conditions), **timing, **draw(limits(window, grouping)))


SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324]
ints = st.integers(-1, 3) | st.sampled_from([2**62, 2**63 - 1, -(2**63)])
floats = st.sampled_from([0.5, 1.25, -3.0, 0.1, 1e9]) | st.sampled_from(SPECIAL)
decimals = st.integers(-500, 500).map(lambda cents: Decimal(cents) / 100)
times = st.integers(-6, 40).map(lambda step: step * MS // 2)
far = st.sampled_from([YEAR, -YEAR, -20 * MS, 200 * MS])


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.none())


instants = st.one_of(times, times, times, times, st.builds(lambda base, step: base + step, far, times))
ROWS = st.fixed_dictionaries(
    {
        "ts": st.integers(0, 15).flatmap(lambda draw: st.none() if draw == 15 else instants),
        "k": or_null(st.sampled_from(["", "u", "v"])),
        "n": or_null(st.integers(0, 2)),
        "x": or_null(st.sampled_from([0.0, -0.0, math.nan, 1.5])),
        "a": or_null(ints),
        "f": or_null(floats),
        "d": or_null(decimals),
        "b": or_null(st.booleans()),
    }
)


@st.composite
def scenarios(draw: st.DrawFn, windows: st.SearchStrategy[Any], *, rows: st.SearchStrategy[Any] = ROWS) -> Scenario:
    """A query and up to eight micro-batches, put down and taken up again where the flags say."""
    query = draw(queries(windows))
    kinds = ["push"] * 5 + ["clock"] + ["watermark"] * (0 if query.by_clock else 1 if query.data_driven else 4)
    moves: list[Move] = []
    clock, number = 0, 0
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=8)):
        restore = draw(st.sampled_from([False, False, False, True]))
        # In processing time no two micro-batches have one timestamp: a window of an instant is complete with its batch.
        clock += draw(st.sampled_from([1, 2, 7] if query.by_clock else [0, 1, 2, 7])) * MS if kind != "watermark" else 0
        if kind == "watermark":
            moves.append(Move("watermark", draw(instants), restore=restore))
        elif kind == "clock":
            moves.append(Move("clock", clock, restore=restore))
        else:
            pushed = [{"id": number + index} | row for index, row in enumerate(draw(st.lists(rows, max_size=6)))]
            number += len(pushed)
            shard = draw(st.sampled_from(["0", "0", "1"]))
            moves.append(Move("push", clock, tuple(tuple(row.items()) for row in pushed), shard, restore))
    if draw(st.sampled_from([True, True, False])):
        moves.append(Move("end"))
    return Scenario(query, tuple(moves))
