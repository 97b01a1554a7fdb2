"""What holds whatever the oracle says: restoring, cutting, fusing and emitting early change no result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import strategies as draw
from tests.oracle.oracle import Oracle
from tests.oracle.running import (
    Result,
    Run,
    Scenario,
    assert_same_results,
    check_scenario,
    expect,
    results_of,
)
from tests.oracle.spec import Aggregate, Query, Sliding, sql_of
from tests.search import search


@search(6)
@given(draw.scenarios(draw.queries(draw.any_window)))
def test_put_down_and_taken_up_after_every_step(scenario: Scenario) -> None:
    check_scenario(scenario, restore=True)


def final(results: list[Result]) -> list[Result]:
    """Results that are final, by window, trigger and group: how often they were emitted before is left out."""
    return [
        ((start, end, trigger, keys), values)
        for (start, end, trigger, _, is_final, keys), values in results
        if is_final
    ]


@search(6)
@given(draw.punctual_scenarios(draw.windows_with_bounds), st.data())
def test_cuts_into_batches_change_nothing_where_no_row_is_late(scenario: Scenario, data: st.DataObject) -> None:
    """The same rows, cut anew: the oracle's results for one cut are the harness's for the other."""
    oracle, run = Oracle(scenario.query), Run(scenario.query)
    wanted = [expect(oracle, move) for move in scenario.moves]
    assert not sum(each.accounting["late"] for each in wanted)
    for move in data.draw(draw.cut_anew(scenario.moves)):
        run.move(move)
    results = [result for each in wanted for result in each.results]
    assert_same_results(final(run.results()), final(results), repr(scenario))


@search(6)
@given(draw.scenarios(draw.fusable()))
def test_fused_sliding_gives_the_rows_of_the_unfused(scenario: Scenario) -> None:
    """`collect_list` cannot be computed over ranges, so that with it the same query runs unfused."""
    query = scenario.query
    both = replace(query, aggregates=(*query.aggregates, Aggregate("collect_list", "id")))
    fused, unfused = check_scenario(scenario), check_scenario(replace(scenario, query=both))
    assert fused.harness.plan.stages.window.fused, sql_of(query)
    assert not unfused.harness.plan.stages.window.fused, sql_of(both)
    for step, other in zip(fused.steps, unfused.steps, strict=True):
        exact = [(identity, values) for identity, values in results_of(step, query)]
        pairs = [(identity, values[:-1]) for identity, values in results_of(other, both)]
        assert sorted(map(repr, exact)) == sorted(map(repr, pairs)), repr(scenario)


@search(6)
@given(draw.scenarios(draw.queries(draw.sliding)), st.integers(1, 4))
def test_sliding_windows_worked_on_a_few_at_a_time(scenario: Scenario, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("windowpane.core.operators.sliding.CHUNK", chunk)
        check_scenario(scenario)


@search(10)
@given(draw.scenarios(draw.queries(draw.any_window)), st.integers(1, 3), st.booleans())
def test_large_state(scenario: Scenario, small: int, restore: bool) -> None:
    """With limits so low that all state is sorted, cut into pieces, merged bit by bit and read by ranges of hashes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("windowpane.core.runs.SMALL_ROWS", small)
        patch.setattr("windowpane.core.runs.PIECE_ROWS", small + 1)
        patch.setattr("windowpane.core.panes.PIECE_ROWS", small + 1)
        patch.setattr("windowpane.core.operators.window_states.PARCEL_ROWS", small)
        check_scenario(scenario, restore=restore)


def by_group(results: list[Result]) -> dict[Any, list[tuple[int, bool, list[Any]]]]:
    """Emissions of each window and group, in the order in which they came."""
    found: dict[Any, list[tuple[int, bool, list[Any]]]] = {}
    for (start, end, _, epoch, is_final, keys), values in results:
        found.setdefault((start, end, keys), []).append((epoch, is_final, values))
    return found


@search(6)
@given(draw.ended_scenarios(draw.aligned, emit="update"))
def test_the_last_update_is_the_result_at_close(scenario: Scenario) -> None:
    early, at_close = Run(scenario.query), Run(replace(scenario.query, emit="close"))
    for move in scenario.moves:
        early.move(move)
        at_close.move(move)
    emissions = by_group(early.results())
    for history in emissions.values():
        assert [epoch for epoch, _, _ in history] == list(range(1, len(history) + 1))
        assert [is_final for _, is_final, _ in history] == [False] * (len(history) - 1) + [True]
    last = {key: repr(history[-1][2]) for key, history in emissions.items()}
    assert last == {key: repr(history[0][2]) for key, history in by_group(at_close.results()).items()}


@search(4)
@given(draw.ended_scenarios(draw.sessions, emit="update"))
def test_the_last_update_of_a_session_is_its_result_at_close(scenario: Scenario) -> None:
    """A session's bounds grow, so that its updates are other windows; the final ones are the same."""
    early, at_close = Run(scenario.query), Run(replace(scenario.query, emit="close"))
    for move in scenario.moves:
        early.move(move)
        at_close.move(move)
    assert sorted(map(repr, final(early.results()))) == sorted(map(repr, final(at_close.results())))


def test_the_fused_query_is_what_the_strategy_draws() -> None:
    query = Query(Sliding(1000, None, ("k",)), ("k",), (Aggregate("max", "a"),))
    assert Run(query).harness.plan.stages.window.fused
