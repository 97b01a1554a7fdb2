"""What the search has found, each as a small scenario of its own."""

from __future__ import annotations

import pytest

from tests.oracle.running import Move, Scenario, check_scenario, push
from tests.oracle.spec import Aggregate, Aligned, Condition, Plain, Query, Sliding

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
