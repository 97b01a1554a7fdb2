"""Every case cut into fold and merge stages, over several shards, with and without feedback. No Spark is started.

State goes through its entries after every micro-batch, and frames through the wire, just as on Spark.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.cases.loader import CASES, CaseQuery, differences, load_cases, run_case
from tests.search import scaled
from tests.spark.staged import Layout, staged
from windowpane.spark.reports import open_windows
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


SHARING = {
    "tumblingwindow('ss', 5), k": True,
    "sessionwindow('ss', 2), k": True,
    "slidingwindow('ss', 3) OVER (PARTITION BY k), k": True,
    "tumblingwindow('ss', 5), v": False,
}


@pytest.mark.parametrize(("window", "spread"), SHARING.items())
def test_dedupe_is_spread_over_shards_by_what_it_shares_with_the_groups(window: str, spread: bool) -> None:
    """And gives the same as in one shard. Without a shared column both keys would need a shuffle of their own."""
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
    holding = sum(report.state_bytes > 2000 for report in many._runner.reports)  # type: ignore[attr-defined]
    assert (holding > 1) is spread


def _timeless(records: list[dict[str, object]]) -> list[dict[str, object]]:
    return [record | {"processing_time": None} for record in records]
