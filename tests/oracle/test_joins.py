"""Joins of streams against brute force: random rows, cuts, restores and shards."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.joined import WHERES, IntervalOracle, JoinOracle, JoinQuery
from tests.oracle.many_joins import MARKS, QUERIES, Rows, brute
from tests.search import search
from tests.spark.staged import Layout, rescale, staged
from windowpane.testing import Harness

Push = tuple[str, list[tuple[int, str | None, int | None]]]
TIME = {"column": "ts", "type": "unixtimestamp_ms"}
SETTINGS = {
    "streams": {
        "a": {"schema": "ts BIGINT, k STRING, v BIGINT", "eventtime": TIME},
        "b": {"schema": "ts BIGINT, k STRING, w BIGINT", "eventtime": TIME},
    },
    "options": {"eventtime.enabled": True, "max_future_skew": "off"},
    "now": 0,
}


DEDUPES: list[tuple[str, ...]] = [(), (), ("v",), ("k",), ("k", "w")]


@st.composite
def queries(draw: st.DrawFn) -> JoinQuery:
    kind = draw(st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]))
    one_sided = kind in ("semi", "anti")
    return JoinQuery(
        kind,
        size=draw(st.sampled_from([4, 10])),
        slide=draw(st.sampled_from([None, None, 2, 3, 5, 12])),
        lateness=draw(st.sampled_from([0, 0, 3])),
        condition=draw(st.booleans()),
        where=draw(st.sampled_from([None, None, "v > 1"] if one_sided else [None, *WHERES])),
        grouped=draw(st.sampled_from([None, "k", "all"])),
        listed=kind == "inner" and draw(st.booleans()),
        dedupe=draw(st.sampled_from(DEDUPES)),
    )


@st.composite
def interval_queries(draw: st.DrawFn) -> JoinQuery:
    kind = draw(st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]))
    wheres = [None, None, "v > 1"] if kind in ("semi", "anti") else [None, *WHERES]
    low = draw(st.integers(-8, 6))
    interval = (low, low + draw(st.integers(0, 12)))
    return JoinQuery(
        kind,
        condition=draw(st.booleans()),
        where=draw(st.sampled_from(wheres)),
        interval=interval,
        listed=kind == "inner" and draw(st.booleans()),
        dedupe=draw(st.sampled_from(DEDUPES)),
    )


rows = st.tuples(st.integers(-5, 40), st.sampled_from(["x", "x", "y", None]), st.sampled_from([0, 1, 2, 3, None]))
pushes = st.lists(st.tuples(st.sampled_from("ab"), st.lists(rows, max_size=6)), min_size=1, max_size=6)


def in_gap(query: JoinQuery, ts: int) -> bool:
    return query.slide is not None and ts % query.slide >= query.size


def shown(step_rows: Sequence[dict[str, object]]) -> list[str]:
    return sorted(repr(tuple(_plain(value) for value in row.values())) for row in step_rows)


def _plain(value: object) -> object:
    return round(value.timestamp() * 1000) if isinstance(value, dt.datetime) else value


def check(query: JoinQuery, given_pushes: Sequence[Push], harness: Harness, before_each: object = None) -> None:
    oracle = JoinOracle(query) if query.interval is None else IntervalOracle(query)
    for number, (side, pushed) in enumerate([*given_pushes, ("end", [])]):
        if callable(before_each):
            harness = before_each(harness, number) or harness
        if side == "end":
            step, (wanted, counts) = harness.end(), oracle.end()
        else:
            batch = [row for row in pushed if not in_gap(query, row[0])]
            names = ("ts", "k", "v" if side == "a" else "w")
            step = harness.push([dict(zip(names, row, strict=True)) for row in batch], side)
            wanted, counts = oracle.push(side, batch)
        where = f"step {number} of {query!r}, {given_pushes!r}"
        assert shown(step.rows) == sorted(map(repr, wanted)), where
        got = step.accounting.as_dict()
        assert {name: got[name] for name in counts} == counts, where
        assert got["buffered"] == len(oracle.rows), where
        kinds = [record["kind"] for record in step.side]
        assert (kinds.count("late"), kinds.count("unmatched")) == (counts["late"], counts["unmatched"]), where


@search(6)
@given(st.one_of(queries(), interval_queries()), pushes, st.sampled_from([0, 1, 2]), st.sampled_from([1, 2, 1 << 14]))
def test_joins(query: JoinQuery, given_pushes: list[Push], restores: int, small: int) -> None:
    """Restored before every other step or before each, also with state in tiny pieces."""

    def restored(harness: Harness, number: int) -> Harness | None:
        if not restores or number % restores:
            return None
        return harness.again(harness.snapshot())

    with pytest.MonkeyPatch.context() as patch:
        in_pieces(patch, small)
        check(query, given_pushes, Harness(query.sql(), **SETTINGS, transform=query.transform()), restored)  # type: ignore[arg-type]


@search(5)
@given(
    st.one_of(queries(), interval_queries()),
    pushes,
    st.builds(Layout, st.integers(2, 4), st.integers(1, 3), st.booleans()),
    st.dictionaries(st.integers(1, 5), st.integers(1, 4), max_size=2),
    st.sampled_from([1, 1 << 14]),
)
def test_joins_over_shards(
    query: JoinQuery, given_pushes: list[Push], layout: Layout, rescales: dict[int, int], small: int
) -> None:
    def rescaled(harness: Harness, number: int) -> None:
        if number in rescales:
            rescale(harness, rescales[number])

    with pytest.MonkeyPatch.context() as patch:
        in_pieces(patch, small)
        check(query, given_pushes, staged(layout, query.sql(), **SETTINGS, transform=query.transform()), rescaled)


OVER_PAIRS = """SELECT window_start, k, count(*) AS n, sum(v) AS v FROM (
  SELECT a.k, v, w FROM a {kind} JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - 3 AND a.ts + 6
) AS j GROUP BY k WINDOW TUMBLING (SIZE 10 MILLISECONDS)"""
PAIRS = "SELECT a.k, v, a.ts AS l, b.ts AS r FROM a {kind} JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - 3 AND a.ts + 6"


@search(3)
@given(st.sampled_from(["INNER", "LEFT"]), pushes, st.builds(Layout, st.integers(1, 3), st.integers(1, 2)))
def test_a_window_over_an_interval_join(kind: str, given_pushes: list[Push], layout: Layout) -> None:
    """Each pair is in the window of its later row, and none is late there."""
    plain = Harness(PAIRS.format(kind=kind), **SETTINGS)  # type: ignore[arg-type]
    over = staged(layout, OVER_PAIRS.format(kind=kind), **SETTINGS)
    pairs, windows = list[dict[str, Any]](), list[dict[str, Any]]()
    for side, batch in given_pushes:
        names = ("ts", "k", "v" if side == "a" else "w")
        pushed = [dict(zip(names, row, strict=True)) for row in batch]
        pairs += plain.push(pushed, side).rows
        windows += over.push(pushed, side).rows
    pairs += plain.end().rows
    windows += over.end().rows
    wanted: dict[tuple[int, str | None], list[int | None]] = {}
    for pair in pairs:
        later = max(ts for ts in (pair["l"], pair["r"]) if ts is not None)
        wanted.setdefault((later // 10 * 10, pair["k"]), []).append(pair["v"])
    expected = [(start, key, len(values), _total(values)) for (start, key), values in wanted.items()]
    assert shown(windows) == sorted(map(repr, expected)), f"{kind}, {given_pushes!r}, {layout}"


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def in_pieces(patch: pytest.MonkeyPatch, small: int) -> None:
    patch.setattr("windowpane.core.runs.SMALL_ROWS", small)
    patch.setattr("windowpane.core.runs.PIECE_ROWS", small + 1)
    patch.setattr("windowpane.core.panes.PIECE_ROWS", small + 1)
    patch.setattr("windowpane.core.operators.window_join.PIECE_ROWS", small + 1)
    patch.setattr("windowpane.core.pairing.CHUNK_PAIRS", small + 1)


THREE = {**SETTINGS["streams"], "d": {"schema": "ts BIGINT, k STRING, x BIGINT", "eventtime": TIME}}  # type: ignore[dict-item]
VALUES = {"a": "v", "b": "w", "d": "x"}
three_pushes = st.lists(st.tuples(st.sampled_from("abd"), st.lists(rows, max_size=6)), min_size=1, max_size=6)


@search(8)
@given(
    st.sampled_from(list(QUERIES)),
    three_pushes,
    st.one_of(st.none(), st.builds(Layout, st.integers(1, 3), st.integers(1, 2), st.booleans(), st.booleans())),
    st.dictionaries(st.integers(1, 5), st.integers(1, 4), max_size=1),
    st.sampled_from([1, 1 << 14]),
)
def test_joins_of_joins_and_of_results(
    name: str, given_pushes: list[Push], layout: Layout | None, rescales: dict[int, int], small: int
) -> None:
    """Three streams, a stream with itself, and results of windows: restored, over shards, and with other numbers of
    them. No row is late, so what comes out in the end depends on nothing else.
    """
    marks = {
        "schema": "id BIGINT, title STRING",
        "rows": [dict(zip(("id", "title"), row, strict=True)) for row in MARKS],
    }
    sql, settings = (
        QUERIES[name],
        {**SETTINGS, "streams": THREE, "tables": {"marks": marks} if "marks" in QUERIES[name] else {}},
    )
    with pytest.MonkeyPatch.context() as patch:
        in_pieces(patch, small)
        harness = Harness(sql, **settings) if layout is None else staged(layout, sql, **settings)  # type: ignore[arg-type]
        read = set(harness.plan.stages.input.streams)
        rows_of: Rows = {"a": [], "b": [], "d": []}
        results = list[dict[str, object]]()
        for number, (stream, pushed) in enumerate([each for each in given_pushes if each[0] in read]):
            if layout is None:
                harness = harness.again(harness.snapshot())
            elif number in rescales:
                rescale(harness, rescales[number])
            rows_of[stream] += pushed
            names = ("ts", "k", VALUES[stream])
            results += harness.push([dict(zip(names, row, strict=True)) for row in pushed], stream).rows
        results += harness.end().rows
    where = f"{name}: {given_pushes!r}, {layout}, {rescales}"
    assert shown(results) == sorted(map(repr, brute(name, rows_of))), where
