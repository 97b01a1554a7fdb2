"""explode over arrays gives what the query without it gives over a row for each element, however rows are cut."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.search import search
from windowpane.testing import Harness

ARRAYS = st.none() | st.lists(st.none() | st.integers(-3, 3), max_size=4)
ROWS = st.lists(st.tuples(st.integers(-20_000, 40_000), st.sampled_from("ab"), ARRAYS), max_size=8)
OPTIONS = {"eventtime.enabled": True}
STREAM = {"eventtime.column": "ts", "eventtime.type": "unixtimestamp_ms"}
SELECT = "SELECT k, x, count(*) AS n, collect_list(x) AS xs, window_start FROM"
GROUPED = "GROUP BY hoppingwindow('ss', 10, 5), k, x"


def results(harness: Harness, batches: list[list[dict[str, Any]]]) -> tuple[list[str], dict[str, int]]:
    """Results in some order, and the sums of the accounts."""
    steps = [harness.push(batch) for batch in batches] + [harness.end()]
    counts = {name: sum(getattr(step.accounting, name) for step in steps) for name in ("read", "made", "in_", "late")}
    return sorted(str(row) for step in steps for row in step.rows), counts


@search(15)
@given(rows=ROWS, cut=st.integers(0, 8), outer=st.booleans())
def test_explode_is_a_row_per_element(
    rows: list[tuple[int, str, list[int | None] | None]], cut: int, outer: bool
) -> None:
    events: list[dict[str, Any]] = [{"ts": ts, "k": k, "a": a} for ts, k, a in rows]
    view = f"s LATERAL VIEW {'OUTER ' if outer else ''}explode(a) t AS x"
    exploding = Harness(
        f"{SELECT} {view} {GROUPED}",
        streams={"s": STREAM | {"schema": "ts BIGINT, k STRING, a ARRAY<INT>"}},
        options=OPTIONS,
    )
    plain = Harness(
        f"{SELECT} s WHERE kept {GROUPED}",
        streams={"s": STREAM | {"schema": "ts BIGINT, k STRING, x INT, kept BOOLEAN"}},
        options=OPTIONS,
    )
    flat = [
        [
            {"ts": event["ts"], "k": event["k"], "x": x, "kept": bool(event["a"]) or outer}
            for event in part
            for x in event["a"] or [None]
        ]
        for part in (events[:cut], events[cut:])
    ]
    got, counts = results(exploding, [events[:cut], events[cut:]])
    wanted, flat_counts = results(plain, flat)
    assert got == wanted
    assert counts["read"] == len(rows)
    assert (counts["in_"], counts["late"]) == (flat_counts["in_"], flat_counts["late"])
    assert counts["made"] == sum(len(a) - 1 for _, _, a in rows if a)
