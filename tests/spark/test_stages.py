"""Every case cut into near and far stages, over several shards, with and without feedback. No Spark is started.

State goes through its entries after every micro-batch, and frames through the wire, just as on Spark.
"""

from __future__ import annotations

import pytest

from tests.cases.loader import CASES, Case, CaseQuery, differences, load_cases, run_case
from tests.spark.staged import Layout, staged
from windowpane.core.wire import unpack_frames
from windowpane.spark.reports import open_windows

ALL = load_cases()
LAYOUTS = [*(Layout(shards, feedback=True) for shards in (1, 2, 7)), Layout(2, feedback=False)]


@pytest.mark.skipif(not ALL, reason=f"no cases: {CASES.name}/ is not beside the repository")
@pytest.mark.parametrize("case", ALL, ids=[case["id"] for case in ALL])
def test_case_in_stages(case: Case) -> None:
    query = CaseQuery(case)
    for layout in LAYOUTS:
        harness = staged(layout, query.sql(), **query.harness_arguments())
        lines = differences(case, run_case(case, harness))
        assert not lines, "\n".join([str(layout), query.sql(), *lines])


def test_a_window_with_groups_in_several_shards_is_open_once() -> None:
    sql = "SELECT k, count(*) AS n FROM s GROUP BY hoppingwindow('ss', 10, 5), k"
    streams = {"s": {"schema": "ts BIGINT, k BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}}
    harness = staged(Layout(3, feedback=True), sql, streams=streams, options={"eventtime.enabled": True})
    harness.push([{"ts": 1000 * number, "k": number} for number in range(12)])
    metas = [unpack_frames(report)[2] for report in harness._chain.reports]  # type: ignore[attr-defined]
    assert len(metas) == 3
    assert all(meta["open_stretches"] for meta in metas)
    assert open_windows(metas) == 2, "[5, 15) and [10, 20): the watermark is at 11"
