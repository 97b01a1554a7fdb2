"""Every case cut into fold and merge stages, over several shards, with and without feedback. No Spark is started.

State goes through its entries after every micro-batch, and frames through the wire, just as on Spark.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.cases.loader import CASES, CaseQuery, differences, load_cases, run_case
from tests.search import scaled
from tests.spark.staged import Layout, keeping_closed, staged
from windowpane.core import columns as c
from windowpane.core.accounting import Accounting
from windowpane.core.runner import BatchResult
from windowpane.errors import InternalError
from windowpane.spark.reports import Reports, open_windows
from windowpane.spark.shard_report import ShardReport
from windowpane.testing import Harness

ALL = load_cases()
LAYOUTS = [*(Layout(shards, feedback=True) for shards in (1, 2, 7)), Layout(2, feedback=False)]


@pytest.mark.skipif(not ALL, reason=f"no cases: {CASES.name}/ is not beside the repository")
@pytest.mark.parametrize("number", range(len(ALL)), ids=[case["id"] for case in ALL])
def test_case_in_stages(number: int) -> None:
    """Each case in one layout, `make search` in all of them."""
    case, query = ALL[number], CaseQuery(ALL[number])
    for layout in [LAYOUTS[(number + more) % len(LAYOUTS)] for more in range(min(scaled(1), len(LAYOUTS)))]:
        harness = staged(layout, query.sql(), **query.harness_arguments())
        lines = differences(case, run_case(case, harness))
        assert not lines, "\n".join([str(layout), query.sql(), *lines])


def test_a_window_with_groups_in_several_shards_is_open_once() -> None:
    sql = "SELECT k, count(*) AS n FROM s GROUP BY hoppingwindow('ss', 10, 5), k"
    streams = {"s": {"schema": "ts BIGINT, k BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}}
    harness = staged(Layout(3, feedback=True), sql, streams=streams, options={"eventtime.enabled": True})
    harness.push([{"ts": 1000 * number, "k": number} for number in range(12)])
    reports = harness._runner.reports  # type: ignore[attr-defined]
    assert len(reports) == 3
    assert all(report.open_runs for report in reports)
    assert open_windows(reports) == 2, "[5, 15) and [10, 20): the watermark is at 11"


@pytest.mark.parametrize("emit", ["", " EMIT ON UPDATE"])
def test_closed_windows_leave_all_shards_with_their_accumulators(emit: str) -> None:
    """Each window and group that is emitted for the last time, once."""
    sql = f"SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 5), k{emit}"
    streams = {"s": {"schema": "ts BIGINT, k BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}}
    options = {"eventtime.enabled": True}
    harness = keeping_closed(Layout(3), sql, 1, streams=streams, options=options)
    found, results = list[dict[str, Any]](), list[BatchResult]()
    run_batch = harness._runner.run_batch

    def keeping(*given: Any, **more: Any) -> BatchResult:
        results.append(run_batch(*given, **more))
        return results[-1]

    harness._runner.run_batch = keeping  # type: ignore[method-assign]
    for first in range(0, 40, 8):
        harness.push([{"ts": 500 * number, "k": number % 4} for number in range(first, first + 8)])
    for result in results:
        found += [row for batch in result.closed for row in batch.to_pylist()]
    final = [row for result in results for batches in result.emissions.values() for batch in batches
             for row in batch.to_pylist() if row[c.FINAL]]  # fmt: skip
    place = (c.WINDOW_KEY, "_k0", c.WINDOW_END, c.EPOCH)
    assert sorted(tuple(row[name] for name in place) for row in found) == sorted(
        (row[c.WINDOW_START], row["_k0"], row[c.WINDOW_END], row[c.EPOCH]) for row in final
    )
    assert len(found) == 12
    assert {row["_a0.0"] for row in found} == {2, 3}


SHARING = {
    "tumblingwindow('ss', 5), k": 1,
    "sessionwindow('ss', 2), k": 1,
    "slidingwindow('ss', 3) OVER (PARTITION BY k), k": 1,
    "tumblingwindow('ss', 5), v": 2,
    "slidingwindow('ss', 3), v": 2,
    "countwindow(3)": 2,
}


@pytest.mark.parametrize(("window", "shuffles"), SHARING.items())
def test_dedupe_is_spread_over_shards(window: str, shuffles: int) -> None:
    """By the columns that it shares with the groups, or by its own in front of a second shuffle, with equal results."""
    sql = f"SELECT count(*) AS n, sum(v) AS s FROM s GROUP BY {window}"
    streams = {
        "s": {"schema": "ts BIGINT, k BIGINT, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}
    }
    transform = {"dedupe": {"key": ["ts", "k"], "within": "4s"}}
    arguments = {"streams": streams, "options": {"eventtime.enabled": True}, "transform": transform}
    rng = random.Random(3)
    batches = [
        [{"ts": 100 * rng.randrange(20 * part, 20 * part + 40), "k": rng.randrange(4), "v": 1} for _ in range(60)]
        for part in range(4)
    ]
    one, many = Harness(sql, **arguments), staged(Layout(3, feedback=True), sql, **arguments)  # type: ignore[arg-type]
    duplicates = 0
    for rows in batches:
        wanted, got = one.push(rows), many.push(rows)
        duplicates += wanted.accounting.duplicate
        assert wanted.accounting == got.accounting
        assert Counter(map(str, wanted.rows)) == Counter(map(str, got.rows))
        assert Counter(map(str, _timeless(wanted.side))) == Counter(map(str, _timeless(got.side)))
    assert duplicates > 10
    reports: list[ShardReport] = many._runner.reports  # type: ignore[attr-defined]
    assert len(reports) == 3 * shuffles
    assert sum(report.tallies["received.1"] > 0 for report in reports if report.step == 1) > 1


@pytest.mark.parametrize("window", ["tumblingwindow('ss', 5)", "hoppingwindow('ss', 10, 5)", "sessionwindow('ss', 2)"])
@pytest.mark.parametrize("dedupe", [False, True])
def test_a_key_with_half_of_the_rows_sends_no_more_to_its_shard_than_others(window: str, dedupe: bool) -> None:
    """Windows fold rows before the shuffle by group: in the tasks of the source, or behind dedupe."""
    sql = f"SELECT k, count(*) AS n FROM s GROUP BY {window}, k"
    schema = "ts BIGINT, k BIGINT, id BIGINT"
    streams = {"s": {"schema": schema, "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}}
    transform = {"dedupe": {"key": ["id"], "within": "4s"}} if dedupe else {}
    received = {}
    for hot in (False, True):
        rng = random.Random(5)
        rows = [
            {"ts": 10 * number, "k": 0 if hot and number % 2 else rng.randrange(50), "id": number}
            for number in range(1000)
        ]
        harness = staged(Layout(2), sql, streams=streams, options={"eventtime.enabled": True}, transform=transform)
        harness.push(rows)
        reports = harness._runner.reports  # type: ignore[attr-defined]
        last = max(report.step for report in reports)
        received[hot] = [report.tallies[f"received.{last}"] for report in reports if report.step == last]
    assert max(received[True]) <= 1.25 * max(received[False]) < 200


def test_only_the_groups_of_a_quota_meet_in_one_shard() -> None:
    """Rows stay where their group is. Requests of one window go to one shard, each group once."""
    sql = "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 60), k"
    streams = {"s": {"schema": "ts BIGINT, k BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}}
    arguments = {"options": {"eventtime.enabled": True}, "transform": {"limits.max_groups": 20}}
    harness = staged(Layout(3, tasks=1), sql, streams=streams, **arguments)
    step = harness.push([{"ts": number, "k": number % 25} for number in range(1000)])
    assert step.accounting.evicted == 200
    reports: list[ShardReport] = harness._runner.reports  # type: ignore[attr-defined]
    received = {
        (report.step, shard % 3): report.tallies[f"received.{report.step}"] for shard, report in enumerate(reports)
    }
    assert sum(received[1, shard] for shard in range(3)) == 1000 + 25
    assert sum(received[2, shard] for shard in range(3)) == 1000 + 20
    assert all(100 < received[2, shard] < 900 for shard in range(3))


def test_rows_that_are_lost_between_stages_are_found_out() -> None:
    reports = [ShardReport(0, 1, tallies={"sent.1": 5, "received.1": 5, "sent.2": 3}), ShardReport(0, 2)]
    with pytest.raises(InternalError, match="3 rows were sent to stage 2, and 0 arrived"):
        Reports(Accounting(), reports).check_crossings()


def _timeless(records: list[dict[str, object]]) -> list[dict[str, object]]:
    return [record | {"processing_time": None} for record in records]
