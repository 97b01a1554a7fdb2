"""Dedupe and max_groups with joins of streams and with windows over windows: over shards, and against brute force."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.many_joins import QUERIES, Row, Rows, brute
from tests.oracle.test_joins import SETTINGS, THREE, VALUES, Push, in_pieces, shown, three_pushes
from tests.search import search
from tests.spark.staged import Layout, rescale, staged
from windowpane.testing import Harness, Step

layouts = st.builds(Layout, st.integers(1, 3), st.integers(1, 2), st.booleans(), st.booleans())
rescalings = st.dictionaries(st.integers(1, 5), st.integers(1, 4), max_size=1)
DEDUPED = [name for name in QUERIES if name not in ("united", "a union", "two tables", "the first")]
"""The branches of `united` and `a union` do not select the key; the others do not join several streams or results."""
GROUPED = {
    "by the key": "SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k, tumblingwindow('ms', 10)",
    "by a value": "SELECT v, count(*) AS n FROM a LEFT JOIN b ON a.k = b.k AND w > v GROUP BY v, "
    "hoppingwindow('ms', 10, 4)",
    "by both": "SELECT v, w, count(*) AS n FROM a FULL JOIN b ON a.k = b.k GROUP BY v, w, cumulatewindow('ms', 5, 10)",
    "of three": "SELECT v, x, count(*) AS n FROM a JOIN b ON a.k = b.k JOIN d ON d.k = b.k GROUP BY v, x "
    "WINDOW TUMBLING (SIZE 10 MILLISECONDS)",
    "of results": "SELECT m, count(*) AS n FROM a JOIN (SELECT k, max(v) AS m FROM a GROUP BY k, "
    "tumblingwindow('ms', 10)) AS t ON a.k = t.k GROUP BY m, tumblingwindow('ms', 10)",
    "over pairs": "SELECT v, w, count(*) AS n FROM (SELECT v, w FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - 3 "
    "AND a.ts + 6) AS j GROUP BY v, w, tumblingwindow('ms', 10)",
    "chain": "SELECT m, count(*) AS n FROM (SELECT k, max(v) AS m FROM a GROUP BY k, tumblingwindow('ms', 5)) AS t "
    "GROUP BY m, hoppingwindow('ms', 20, 10)",
    "chain of one key": "SELECT k, count(*) AS n FROM (SELECT k, v, count(*) AS m FROM a GROUP BY k, v, "
    "tumblingwindow('ms', 5)) AS t GROUP BY k, tumblingwindow('ms', 20)",
}
ACCOUNTS = dict.fromkeys(("over pairs", "chain", "chain of one key"), "window_2")
ACCOUNTS |= dict.fromkeys(("of three", "of results"), "window_2_joined")
"""Which account has the evicted rows: that of joined rows, or of the window that reads others."""


def run(harness: Harness, pushes: list[Push], rescales: dict[int, int] | None) -> list[Step]:
    """All steps; restored before each, or with other numbers of shards."""
    steps = []
    for number, (stream, pushed) in enumerate(pushes):
        if rescales is None:
            harness = harness.again(harness.snapshot())
        elif number in rescales:
            rescale(harness, rescales[number])
        names = ("ts", "k", VALUES[stream])
        steps.append(harness.push([dict(zip(names, row, strict=True)) for row in pushed], stream))
    return [*steps, harness.end()]


def made(sql: str, layout: Layout | None, **settings: Any) -> Harness:
    given_settings: dict[str, Any] = {**SETTINGS, "streams": THREE, **settings}
    return Harness(sql, **given_settings) if layout is None else staged(layout, sql, **given_settings)


def first_copies(rows: list[Row], by: int) -> list[Row]:
    """Without rows whose key has come before; all rows of a test are nearer to each other than the horizon."""
    return list({row[by]: row for row in reversed(rows)}.values())[::-1]


@search(8)
@given(st.sampled_from(DEDUPED), st.sampled_from("kv"), three_pushes, st.none() | layouts, rescalings)
def test_dedupe_with_several_joins(
    name: str, key: str, given_pushes: list[Push], layout: Layout | None, rescales: dict[int, int]
) -> None:
    """As if copies had not come. Only stream a has the column v; all of them have k."""
    harness = made(QUERIES[name], layout, transform={"dedupe": {"key": [key], "within": "1s"}})
    pushes = [each for each in given_pushes if each[0] in harness.plan.stages.input.streams]
    steps = run(harness, pushes, None if layout is None else rescales)
    rows: Rows = {stream: [row for side, batch in pushes if side == stream for row in batch] for stream in "abd"}
    compared = "abd" if key == "k" else "a"
    left = {stream: first_copies(own, 1 if key == "k" else 2) if stream in compared else own
            for stream, own in rows.items()}  # fmt: skip
    where = f"{name} by {key}: {given_pushes!r}, {layout}, {rescales}"
    assert shown([row for step in steps for row in step.rows]) == sorted(map(repr, brute(name, left))), where


@search(8)
@given(st.sampled_from(list(GROUPED)), three_pushes, st.integers(1, 3), st.none() | layouts, rescalings)
def test_max_groups_with_joins(
    name: str, given_pushes: list[Push], most: int, layout: Layout | None, rescales: dict[int, int]
) -> None:
    """Each window has as many groups as the limit allows, with all of their rows. The others are evicted."""
    sql = GROUPED[name].replace("SELECT ", "SELECT window_start, window_end, ", 1)
    sql += " WATERMARK (LAG 100 MILLISECONDS)" if "AS t" not in sql and "AS j" not in sql else ""
    options = {**SETTINGS["options"], "eventtime.late_tolerance": "100ms"}  # type: ignore[dict-item]
    with pytest.MonkeyPatch.context() as patch:
        in_pieces(patch, 1 if len(given_pushes) % 2 else 1 << 14)
        plain = made(sql, None, options=options)
        pushes = [each for each in given_pushes if each[0] in plain.plan.stages.input.streams]
        limited = made(sql, layout, options=options, transform={"limits": {"max_groups": most}})
        whole = Counter(tuple(row.values()) for step in run(plain, pushes, None) for row in step.rows)
        steps = run(limited, pushes, None if layout is None else rescales)
    found = Counter(tuple(row.values()) for step in steps for row in step.rows)
    where = f"{name}, {most} groups: {given_pushes!r}, {layout}, {rescales}"
    assert not found - whole, where
    windows = Counter({window: min(count, most) for window, count in Counter(row[:2] for row in whole).items()})
    assert Counter(row[:2] for row in found) == windows, where
    evicted, account = sum(row[-1] for row in whole - found), ACCOUNTS.get(name, "joined")  # type: ignore[misc]
    counted = sum(step.stages[account].evicted for step in steps)
    assert counted == sum(record["kind"] == "evicted" for step in steps for record in step.side), where
    if name == "chain":  # A row is evicted if none of its windows takes it; joined rows are of one window each.
        assert counted <= evicted, where
    else:
        assert counted == evicted, where
