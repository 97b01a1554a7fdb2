"""Window functions and QUALIFY over the results of windows give what brute force gives, however rows are cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.ranked import Call, Group, Order
from tests.search import search
from windowpane.testing import Harness

SIZE_MS = 4_000
STREAM = {"schema": "ts BIGINT, k STRING, g INT, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}
COLUMNS = {"k": "k", "g": "g", "n": "count(*)", "s": "sum(v)", "top": "max(v)"}
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Ranked:
    """A query with window functions over groups by k and g. `most`: QUALIFY keeps the first values up to this."""

    calls: tuple[Call, ...]
    most: int | None

    @property
    def sql(self) -> str:
        calls = [f"{_spelled(call)} AS o{number}" for number, call in enumerate(self.calls)]
        chosen = [*(f"{sql} AS {name}" for name, sql in COLUMNS.items() if name != sql), *calls]
        qualify = "" if self.most is None else f" QUALIFY o0 <= {self.most}"
        return f"SELECT k, g, window_start, {', '.join(chosen)} FROM s GROUP BY tumblingwindow('ss', 4), k, g{qualify}"

    def expected(self, rows: list[Row]) -> Counter[tuple[Any, ...]]:
        found: Counter[tuple[Any, ...]] = Counter()
        for start in {row["ts"] // SIZE_MS for row in rows}:
            groups = _groups([row for row in rows if row["ts"] // SIZE_MS == start])
            values = [call.values(groups) for call in self.calls]
            for place, group in enumerate(groups):
                own = tuple(column[place] for column in values)
                if self.most is None or own[0] <= self.most:
                    found[start * SIZE_MS, *group.values(), *own] += 1
        return found


def _spelled(call: Call) -> str:
    """With the aggregates themselves in place of their names, as in SELECT."""
    text = call.sql
    for name, sql in COLUMNS.items():
        text = " ".join(sql if word == name else word for word in _words(text)) if name != sql else text
    return text


def _words(text: str) -> list[str]:
    for mark in "(),":
        text = text.replace(mark, f" {mark} ")
    return text.split()


def _groups(rows: list[Row]) -> list[Group]:
    found: dict[tuple[Any, Any], list[Any]] = {}
    for row in rows:
        found.setdefault((row["k"], row["g"]), []).append(row["v"])
    groups = []
    for (k, g), values in found.items():
        known = [value for value in values if value is not None]
        top = max(known) if known else None
        groups.append({"k": k, "g": g, "n": len(values), "s": sum(known) if known else None, "top": top})
    return groups


numbers = st.sampled_from(["n", "s", "top", "g"])
orders = st.lists(
    st.builds(Order, st.sampled_from([*COLUMNS]), st.booleans(), st.sampled_from([None, True, False])),
    min_size=1, max_size=2, unique_by=lambda order: order.column,
).map(tuple)  # fmt: skip
partitions = st.sampled_from([(), ("k",), ("g",)])
bounds = st.tuples(st.sampled_from([None, -2, -1, 0]), st.sampled_from([None, 0, 1, 2]))
frames = st.none() | bounds
ranks = st.builds(
    Call, st.sampled_from(["row_number", "rank", "dense_rank"]), partition=partitions, order=orders
) | st.builds(Call, st.just("ntile"), number=st.integers(1, 4), partition=partitions, order=orders)  # fmt: skip
others = st.builds(
    Call, st.sampled_from(["lag", "lead"]), numbers, st.integers(0, 3), partition=partitions, order=orders
) | st.builds(
    Call, st.sampled_from(["first_value", "last_value", "sum", "count", "min", "max"]), numbers,
    partition=partitions, order=orders, rows=frames,
)  # fmt: skip
queries = st.builds(
    lambda rank, more, most: Ranked((rank, *more), most),
    ranks, st.lists(others, min_size=1, max_size=3), st.none() | st.integers(1, 3),
)  # fmt: skip
rows = st.fixed_dictionaries({
    "ts": st.sampled_from([-5_000, -1, 0, 1, 3_999, 4_000, 5_000, 40_000]),
    "k": st.sampled_from(["a", "b", "ü", None]),
    "g": st.sampled_from([1, 2, None]),
    "v": st.sampled_from([-1, 0, 3, None]),
})  # fmt: skip


@search(12)
@given(queries, st.lists(rows, max_size=25), st.lists(st.integers(0, 25), max_size=3), st.booleans())
def test_window_functions_over_results(
    query: Ranked, pushed: list[Row], cuts: list[int], restored: bool
) -> None:  # drawn
    in_time = sorted(pushed, key=lambda row: row["ts"])
    harness = Harness(query.sql, streams={"s": STREAM}, options={"eventtime.enabled": True, "max_future_skew": "off"})
    steps, places = [], [0, *sorted(cuts), len(in_time)]
    for low, high in pairwise(places):
        steps.append(harness.push(in_time[low:high]))
        if restored:
            harness = harness.again(harness.snapshot())
    steps.append(harness.end())
    names = ["k", "g", "n", "s", "top", *(f"o{number}" for number in range(len(query.calls)))]
    found = Counter(
        (round(row["window_start"].timestamp() * 1000), *(row[name] for name in names))  # type: ignore[attr-defined]
        for step in steps
        for row in step.rows
    )
    assert found == query.expected(in_time), query.sql
    assert not [side for step in steps for side in step.side]
