"""What the search has found, each as a small scenario of its own."""

from __future__ import annotations

import pytest

from tests.oracle.running import Move, Run, Scenario, check_scenario, push
from tests.oracle.spec import Aggregate, Aligned, Condition, Plain, Query, Session, Sliding, Window

END = Move("end")


def test_a_dedupe_key_that_is_also_aggregated_keeps_its_column() -> None:
    query = Query(Aligned(6000), aggregates=(Aggregate("last", "a"),), dedupe_by=("a",), dedupe_within_us=4000)
    check_scenario(Scenario(query, (push([{"id": 0, "ts": 0, "a": 1}, {"id": 1, "ts": 1, "a": 1}]), END)))


@pytest.mark.parametrize("partition_by", [(), ("k",)])
def test_rows_of_windows_with_one_instant_have_identities_of_their_own(partition_by: tuple[str, ...]) -> None:
    rows = [{"id": 0, "ts": 5, "k": "u"}, {"id": 1, "ts": 5, "k": "u"}, {"id": 2, "ts": 5, "k": "v"}]
    run = check_scenario(Scenario(Query(Sliding(3000, None, partition_by)), (push(rows), END)))
    assert len(run.results()) == (5 if partition_by else 9)


def test_a_shard_whose_rows_have_no_time_is_not_idle() -> None:
    query = Query(Plain(), idle_timeout_us=5000)
    moves = (
        push([{"id": 0, "ts": 100_000}], shard="s/0"),
        push([{"id": 1, "ts": 101_000}], shard="s/1"),
        push([{"id": 2, "ts": None}], shard="s/0", at=4000),
        push([{"id": 3, "ts": 120_000}], shard="s/1", at=6000),
    )
    run = check_scenario(Scenario(query, moves))
    assert run.steps[-1].accounting.buffered == 2


def test_a_stream_whose_rows_have_no_time_is_not_idle() -> None:
    query = Query(Plain(), idle_timeout_us=5000, streams=("s", "t"))
    moves = (
        push([{"id": 0, "ts": 100_000}], shard="s/0"),
        push([{"id": 1, "ts": None}], shard="t/0", at=4000),
        push([{"id": 2, "ts": 101_000}], shard="s/0", at=6000),
    )
    run = check_scenario(Scenario(query, moves))
    assert run.steps[-1].watermark is None


@pytest.mark.parametrize("function", ["count", "collect_list"])
def test_a_condition_may_be_both_when_and_filter(function: str) -> None:
    condition = Condition("n", "<", 3)
    query = Query(Sliding(1000, None, (), condition), (), (Aggregate(function, "k", filter=condition),))
    rows = [{"id": 0, "ts": 0, "k": "u", "n": 1}, {"id": 1, "ts": 1, "k": "v", "n": 5}]
    check_scenario(Scenario(query, (push(rows), END)))


@pytest.mark.parametrize("function", ["count", "collect_list"])
def test_a_part_of_a_session_that_is_carried_on_counts_once(function: str) -> None:
    """It lies beside the part that it was made of, and both are small enough to be merged."""
    query = Query(Session(5000), ("k",), (Aggregate(function, "id"),))
    early = [{"id": number, "ts": 1000, "k": key} for number, key in enumerate("uvw")]
    moves = (push(early), push([{"id": 3, "ts": 0, "k": "u"}, {"id": 4, "ts": 5500, "k": "x"}]), END)
    check_scenario(Scenario(query, moves))


@pytest.mark.parametrize("other", ["count", "collect_list"])
def test_aggregates_that_share_a_filter_evaluate_their_arguments_under_it(other: str) -> None:
    condition = Condition("a", ">=", 3)
    calls = (Aggregate(other, "k", filter=condition), Aggregate("sum", "a / n", filter=condition))
    check_scenario(Scenario(Query(Aligned(5000), (), calls), (push([{"ts": 0, "a": 0, "n": 0}]), Move("end"))))


@pytest.mark.parametrize("other", ["count", "collect_list"])
def test_a_condition_that_is_also_a_filter_still_drops_rows_before_anything_is_computed(other: str) -> None:
    condition = Condition("n", ">=", 1)
    calls = (Aggregate(other, "k", filter=condition), Aggregate("sum", "a / n"))
    query = Query(Aligned(5000), (), calls, where=condition)
    check_scenario(Scenario(query, (push([{"ts": 0, "a": 0, "n": 0}]), Move("end"))))


@pytest.mark.parametrize("window", [Aligned(3000), Session(3000), Sliding(3000, 1000), Plain()])
@pytest.mark.parametrize("far", [2**62 - 1, -(2**62), 253_402_300_800_000_000, -62_135_596_800_000_001])
def test_a_row_in_the_year_10000_stops_nothing(window: Window, far: int) -> None:
    """Nor does one in the year 0: they are shown as the nearest that a datetime can be."""
    run = Run(Query(window, data_driven=False))
    run.move(push([{"id": 0, "ts": 5}, {"id": 1, "ts": far}]))
    run.move(END)
    assert sorted(values for _, values in run.results()) == [[0], [1]]


def test_a_pane_that_changes_after_a_window_over_it_has_closed() -> None:
    """What was merged for [0, 4) must not be used for [1, 5) when a row has come between."""
    query = Query(Aligned(4000, 1000), (), (Aggregate("count"),), data_driven=False)
    moves = (
        push([{"id": number, "ts": number * 1000} for number in range(7)]),
        Move("watermark", 4000),
        push([{"id": 7, "ts": 3000}]),
        Move("watermark", 5000),
        push([{"id": 8, "ts": 2000}, {"id": 9, "ts": 4000}]),
        Move("watermark", 6000),
        END,
    )
    check_scenario(Scenario(query, moves))


def test_a_copy_exactly_the_horizon_later_is_no_duplicate() -> None:
    query = Query(Aligned(20_000), (), (Aggregate("count"),), dedupe_by=("a",), dedupe_within_us=2000)
    rows = [{"id": number, "ts": ts, "a": 1} for number, ts in enumerate([4000, 5999, 2001, 2000, 6000])]
    run = check_scenario(Scenario(query, (push(rows), END)))
    assert run.steps[0].accounting.duplicate == 2
