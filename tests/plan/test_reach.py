"""Which rows the windows of a range need: a backfill reads no others."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from windowpane.core.time_range import ALWAYS, TimeRange
from windowpane.plan.reach import Reach, reach_of
from windowpane.testing import Harness
from windowpane.time import from_datetime

SECOND = 1_000_000
HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND
STREAM = {"schema": "k STRING, v BIGINT, ts TIMESTAMP", "eventtime.column": "ts"}


def _reach(sql: str, **settings: Any) -> Reach:
    options = {"eventtime.enabled": True}
    return reach_of(Harness(sql, streams={"a": STREAM, "b": STREAM}, options=options, **settings).plan.stages)


@pytest.mark.parametrize(
    ("sql", "before_us", "after_us"),
    [
        ("SELECT count(*) FROM a GROUP BY tumblingwindow('ss', 10)", 0, 10 * SECOND),
        ("SELECT count(*) FROM a GROUP BY hoppingwindow('ss', 60, 10)", 0, 60 * SECOND),
        ("SELECT count(*) FROM a GROUP BY cumulatewindow('ss', 10, 60)", 0, 60 * SECOND),
        ("SELECT count(*) FROM a GROUP BY tumblingwindow('dd', 1, 'Europe/Berlin')", 0, 3 * DAY),
        ("SELECT sum(v) FROM a GROUP BY slidingwindow('ss', 10)", 10 * SECOND, 1),
        ("SELECT sum(v) FROM a GROUP BY slidingwindow('ss', 10, 5)", 10 * SECOND, 5 * SECOND + 1),
        # The minute that ends at the start of an hour's window is not part of it, but its rows are those before.
        (("SELECT sum(n) FROM (SELECT k, count(*) AS n FROM a GROUP BY tumblingwindow('mi', 1), k) AS m "
         "GROUP BY tumblingwindow('hh', 1)"), 60 * SECOND, HOUR + 60 * SECOND),
        ("SELECT count(*) FROM a JOIN b ON a.k = b.k GROUP BY tumblingwindow('ss', 10)", 0, 10 * SECOND),
        (("SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 5 SECONDS "
         "AND a.ts + INTERVAL 7 SECONDS"), 7 * SECOND, 7 * SECOND + 1),
    ],
)  # fmt: skip
def test_windows_of_time_need_rows_around_the_range(sql: str, before_us: int, after_us: int) -> None:
    found = _reach(sql)
    assert (found.before_us, found.after_us, found.unbounded) == (before_us, after_us, ())
    assert found.around(TimeRange(0, HOUR)) == TimeRange(-before_us, HOUR + after_us)


@pytest.mark.parametrize(
    ("sql", "why", "settings"),
    [
        ("SELECT k, count(*) FROM a GROUP BY sessionwindow('ss', 10), k", "session", {}),
        ("SELECT count(*) FROM a GROUP BY countwindow(5)", "count", {}),
        ("SELECT count(*) FROM a GROUP BY statewindow(v > 3)", "state", {}),
        ("SELECT count(*) FROM a GROUP BY tumblingwindow('ss', 10)", "dedupe",
         {"transform": {"dedupe": {"key": ["k"], "within": "10m"}}}),
        (("SELECT count(*) FROM (SELECT k, max(ts) AS m FROM a GROUP BY tumblingwindow('mi', 1), k) AS x "
         "WINDOW TUMBLING (SIZE 1 HOUR) ON m"), "ON", {}),
    ],
)  # fmt: skip
def test_other_windows_need_all_rows_and_the_plan_says_why(sql: str, why: str, settings: dict[str, Any]) -> None:
    found = _reach(sql, **settings)
    assert len(found.unbounded) == 1
    assert why in found.unbounded[0]
    assert found.around(TimeRange(0, HOUR)) == ALWAYS


RANGED = [
    "SELECT window_start AS at, k, sum(v) AS s FROM a GROUP BY hoppingwindow('ss', 30, 10), k",
    "SELECT trigger_time AS at, sum(v) AS s FROM a GROUP BY slidingwindow('ss', 7, 4)",
    ("SELECT window_start AS at, k, sum(n) AS s FROM (SELECT k, count(*) AS n FROM a GROUP BY tumblingwindow('ss', 7), "
     "k) AS m GROUP BY hoppingwindow('ss', 20, 10), k"),
    ("SELECT window_start AS at, max(s) AS s FROM (SELECT sum(v) AS s FROM a GROUP BY slidingwindow('ss', 5)) AS m "
     "GROUP BY tumblingwindow('ss', 10)"),
]  # fmt: skip


@pytest.mark.parametrize("sql", RANGED)
def test_windows_of_a_range_are_the_same_without_the_rows_beyond_its_reach(sql: str) -> None:
    start = dt.datetime(1969, 12, 31, 23, 59, 30, tzinfo=dt.UTC)
    seconds = [step * 37 % 120 + step % 3 / 4 for step in range(90)]
    rows: list[dict[str, Any]] = [
        {"k": "xy"[step % 2], "v": step, "ts": start + dt.timedelta(seconds=at)} for step, at in enumerate(seconds)
    ]
    whole = Harness(sql, streams={"a": STREAM}, options={"eventtime.enabled": True}, watermark="manual", now=200 * DAY)
    low, high = -7 * SECOND, 31 * SECOND
    read = reach_of(whole.plan.stages).around(TimeRange(low, high))
    assert read.from_us is not None
    assert read.to_us is not None
    near = [row for row in rows if read.from_us <= from_datetime(row["ts"]) < read.to_us]
    assert 0 < len(near) < len(rows)

    def results(given: list[dict[str, Any]]) -> list[str]:
        harness = whole.again()
        found = [*harness.push(given).rows, *harness.end().rows]
        return sorted(str(row) for row in found if low <= from_datetime(row["at"]) < high)  # type: ignore[arg-type]

    assert results(near) == results(rows)
    assert results(rows)
