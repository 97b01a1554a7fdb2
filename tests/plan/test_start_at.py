"""A transform that begins at an instant: it has the windows that start there or after, and no partial one."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from windowpane.checkpoint.evolution import check_start, handed_over, starting
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.errors import ConfigError, PlanError, StateError
from windowpane.plan.changes import Change
from windowpane.plan.cuts import first_start_us
from windowpane.testing import Harness

STREAM = {"schema": "ts BIGINT, k STRING", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}
COUNTS = "SELECT window_start, count(*) AS n FROM s GROUP BY {}"


def harness(
    window: str, start_at: Any = "1970-01-01T00:00:07Z", *, sql: str = COUNTS, event_time: bool = True
) -> Harness:
    timing = {"eventtime.enabled": event_time, "max_future_skew": "off"}
    return Harness(sql.format(window), streams={"s": STREAM}, options=timing, transform={"start_at": start_at})


def counted(made: Harness) -> dict[int, int]:
    rows = [{"ts": second * 1_000, "k": "x"} for second in range(20)]
    steps = [made.push(rows[:6]), made.push(rows[6:]), made.end()]
    assert sum(step.accounting.late for step in steps) == 0, "rows before the start are skipped"
    rows_of: list[dict[str, Any]] = [row for step in steps for row in step.rows]
    return {round(row["window_start"].timestamp()): row["n"] for row in rows_of}


def test_only_whole_windows_from_the_instant_on() -> None:
    assert counted(harness("tumblingwindow('ss', 5)")) == {10: 5, 15: 5}
    assert counted(harness("hoppingwindow('ss', 6, 3)")) == {9: 6, 12: 6, 15: 5, 18: 2}
    assert counted(harness("sessionwindow('ss', 2)")) == {7: 13}
    below = "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 2)"
    chain = f"SELECT window_start, sum(n) AS n FROM ({below}) GROUP BY {{}}"
    assert counted(harness("tumblingwindow('ss', 4)", sql=chain)) == {8: 4, 12: 4, 16: 4}


def test_a_date_of_toml_is_an_instant() -> None:
    assert harness("tumblingwindow('ss', 5)", dt.datetime(1970, 1, 2, tzinfo=dt.UTC)).plan.start_us == 86_400_000_000
    assert harness("tumblingwindow('ss', 5)", dt.date(1970, 1, 2)).plan.start_us == 86_400_000_000


@pytest.mark.parametrize("text", ["now", "-1d", "yesterday", 7, "2026-13-01"])
def test_only_instants_that_stay_are_accepted(text: object) -> None:
    with pytest.raises(ConfigError, match="is not an instant"):
        harness("tumblingwindow('ss', 5)", text)


def test_what_cannot_begin_at_an_instant() -> None:
    with pytest.raises(PlanError, match="cannot begin at an instant: it uses processing time"):
        harness("tumblingwindow('ss', 5)", event_time=False)


def test_a_checkpoint_keeps_the_start() -> None:
    plan = harness("tumblingwindow('ss', 5)").plan
    record = starting(PlanRecord.of(plan, 2), plan)
    assert (record.start_us, record.from_us, record.begins) == (7_000_000, 10_000_000, True)
    check_start(record, plan, None)
    check_start(record, replace(plan, start_us=None), None)
    with pytest.raises(StateError, match="but it began at 1970-01-01T00:00:07"):
        check_start(record, replace(plan, start_us=8_000_000), None)
    with pytest.raises(StateError, match="has begun without one"):
        check_start(replace(record, start_us=None), plan, None)


def test_a_transform_begins_ahead_of_what_its_job_has_read() -> None:
    plan = harness("tumblingwindow('ss', 5)").plan
    check_start(None, plan, 6_999_999)
    with pytest.raises(StateError, match="has read rows up to 1970-01-01T00:00:07"):
        check_start(None, plan, 7_000_000)


def test_a_query_that_is_changed_before_it_has_run_still_begins_there() -> None:
    plan, other = (harness(f"tumblingwindow('ss', {size})").plan for size in (5, 4))
    record = starting(PlanRecord.of(plan, 2), plan)
    found = handed_over(record, other, Change("hand_over", ("window",)), None)
    assert (found.from_us, found.begins, found.version) == (first_start_us(other), True, 1)
