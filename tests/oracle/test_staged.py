"""Cut into stages and spread over shards, a query gives step by step what it gives in one piece. No Spark needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import strategies as draw
from tests.oracle.running import Move, Run, Scenario, push, results_of
from tests.oracle.spec import Aggregate, Query, Session, Sliding, TimeWindow, Window, settings_of, sql_of
from tests.search import search
from tests.spark.staged import Layout, rescale, staged

layouts = st.builds(Layout, st.integers(2, 4), st.integers(1, 3), st.booleans())


def check_staged(scenario: Scenario, layout: Layout, rescales: Mapping[int, int] = MappingProxyType({})) -> None:
    """Results as multisets, side rows by number, watermark and accounting.

    `rescales`: numbers of shards by the step in front of which they change.
    """
    query = scenario.query
    whole, cut = Run(query), Run(query)
    cut.harness = staged(layout, sql_of(query), **settings_of(query))
    for number, move in enumerate(scenario.moves):
        if number in rescales:
            rescale(cut.harness, rescales[number])
        wanted, got = (run.move(replace(move, restore=False)) for run in (whole, cut))
        where = f"step {number} ({move.kind}) with {layout}, {rescales} of {scenario!r}"
        assert sorted(map(repr, results_of(got, query))) == sorted(map(repr, results_of(wanted, query))), where
        assert len(got.side) == len(wanted.side), where
        assert got.watermark == wanted.watermark, where
        assert got.accounting == wanted.accounting, where


@st.composite
def grouped_inside(draw_one: st.DrawFn) -> Query:
    """Sliding windows over the stream, their rows grouped: every shard needs every trigger. Exact aggregates only."""
    window = replace(draw_one(draw.sliding), partition_by=())
    calls = draw_one(st.lists(draw.aggregates().filter(_exact), min_size=1, max_size=3))
    keys = draw_one(st.sampled_from([("k",), ("n",), ("k", "n")]))
    by_clock = draw_one(st.sampled_from([False, False, True]))
    timing = {"by_clock": True} if by_clock else draw_one(draw.timings(window))
    return Query(window, keys, tuple(calls), draw_one(draw.some_condition), **timing)


def _exact(call: Aggregate) -> bool:
    """The last ulps of a float may depend on how rows were cut."""
    return call.column in (None, "a", "k", "x") and call.function not in ("avg", "stddev")


@search(6)
@given(draw.scenarios(grouped_inside()), layouts)
def test_sliding_windows_over_the_stream_spread_over_shards(scenario: Scenario, layout: Layout) -> None:
    check_staged(scenario, layout)


def test_their_groups_are_what_they_are_spread_by() -> None:
    """One trigger, two groups on two shards, each with a row of its own: both hear of it."""
    query = Query(Sliding(5000), ("n",), (Aggregate("count"),))
    run = Run(query)
    assert run.harness.plan.stages.window.layout.window.broadcast
    rows = [{"ts": ts, "n": ts // 1000} for ts in (1000, 2000, 3000, 4000)]
    moves = draw.numbered([push(rows), Move("end")])
    check_staged(Scenario(query, moves), Layout(4))


@st.composite
def spread_by_groups(draw_one: st.DrawFn, windows: st.SearchStrategy[Window] = draw.any_window) -> Query:
    """Any window. Exact aggregates only."""
    query = draw_one(draw.queries(windows))
    if isinstance(query.window, Sliding) and not set(query.window.partition_by) <= set(query.keys):
        # Shards number the windows of one instant separately.
        query = replace(query, window=replace(query.window, partition_by=()))
    if query.aggregates:
        query = replace(query, aggregates=tuple(filter(_exact, query.aggregates)) or (Aggregate("count"),))
    if query.emit == "every":
        # Each shard has its own interval between updates.
        query = replace(query, emit="update", every_us=0)
    return query


@st.composite
def shuffled_again(draw_one: st.DrawFn, windows: st.SearchStrategy[Window] = draw.any_window) -> Query:
    """Dedupe by columns that the groups lack, a quota, or both. Exact aggregates only."""
    query = draw_one(spread_by_groups(windows))
    limited = isinstance(query.window, TimeWindow) and bool(query.keys)
    if not limited or draw_one(st.booleans()):
        by = draw_one(st.sampled_from(["a", "b n", "x"]))
        query = replace(query, dedupe_by=tuple(by.split()), dedupe_within_us=5000)
    if limited and not (bool(query.dedupe_by) and draw_one(st.booleans())):
        query = replace(query, max_groups=draw_one(st.integers(1, 3)))
    return query


def test_copies_far_behind_the_watermark_are_found_within_a_micro_batch() -> None:
    """An open session takes them, whichever tasks have read them."""
    query = Query(Session(4000), (), (Aggregate("count"),), dedupe_by=("a",), dedupe_within_us=5000)
    opening = push([{"ts": ts, "a": ts // 1000} for ts in (0, 3000, 6000, 9000, 12_000)])
    copies = push([{"ts": ts, "a": 1} for ts in (0, 0, 1000, 500, 4999, 5000)])
    check_staged(Scenario(query, draw.numbered([opening, copies, Move("end")])), Layout(2, 3))


@search(6)
@given(draw.scenarios(shuffled_again()), layouts)
def test_dedupe_and_quotas_get_shuffles_of_their_own(scenario: Scenario, layout: Layout) -> None:
    check_staged(scenario, layout)


@search(5)
@given(
    draw.stretched(draw.scenarios(st.one_of(spread_by_groups(draw.calendars), shuffled_again(draw.calendars)))),
    layouts,
    st.dictionaries(st.integers(1, 6), st.integers(1, 5)),
)
def test_calendar_windows_spread_over_shards(scenario: Scenario, layout: Layout, rescales: dict[int, int]) -> None:
    check_staged(scenario, layout, rescales)


@search(8)
@given(
    draw.scenarios(st.one_of(spread_by_groups(), grouped_inside(), shuffled_again())),
    layouts,
    st.dictionaries(st.integers(1, 6), st.integers(1, 5), min_size=1),
    st.sampled_from([1, 3, 1 << 14]),
)
def test_another_number_of_shards_gives_the_same(
    scenario: Scenario, layout: Layout, rescales: dict[int, int], small: int
) -> None:
    """Also with state in tiny pieces, of which only some rows are divided at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("windowpane.core.runs.SMALL_ROWS", small)
        patch.setattr("windowpane.core.runs.PIECE_ROWS", small + 1)
        patch.setattr("windowpane.core.panes.PIECE_ROWS", small + 1)
        patch.setattr("windowpane.core.segmented_rows.SEGMENT_ROWS", small + 1)
        patch.setattr("windowpane.core.segmented_rows.CHUNK_ROWS", small + 1)
        check_staged(scenario, layout, rescales)
