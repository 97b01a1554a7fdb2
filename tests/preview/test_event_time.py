"""Which column of sampled rows is the event time, how it is read, and the lag that its disorder suggests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from windowpane.preview.event_time import EventTime, find_event_time

START = 1_767_225_600
"""2026-01-01, in seconds."""


def found(**columns: Any) -> EventTime | None:
    table = pa.table(columns)
    return find_event_time([table], table.column_names)


def seconds(offsets: list[int]) -> list[int]:
    return [START + offset for offset in offsets]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([START, START + 1], "unixtimestamp_s"),
        ([START * 1_000, START * 1_000 + 5], "unixtimestamp_ms"),
        ([START * 1_000_000, START * 1_000_000 + 5], "unixtimestamp_us"),
        ([float(START), START + 0.5], "unixtimestamp_s"),
        ([f"{START}", f"{START + 1}"], "unixtimestamp_s"),
        (["2026-01-01T00:00:00Z", "2026-01-01 00:00:01+01:00"], "iso8601"),
        (["2026-01-01", "2026-01-02"], "iso8601"),
        (pa.array([START, START + 1], pa.timestamp("s")), "timestamp"),
        (pa.array([20_454, 20_455], pa.date32()), "timestamp"),
    ],
)
def test_formats(values: Any, kind: str) -> None:
    eventtime = found(ts=values)
    assert eventtime is not None
    assert (eventtime.column, eventtime.type) == ("ts", kind)


@pytest.mark.parametrize(
    ("best", "other"),
    [
        ("event_time", "ts"), ("ts", "created_at"), ("created_at", "updated_at"), ("eventTime", "received_at"),
        ("timestamp", "ingested_at"), ("@timestamp", "expires_at"), ("occurred_at", "processed_at"),
    ],
)  # fmt: skip
def test_names(best: str, other: str) -> None:
    times = seconds([0, 1, 2])
    eventtime = found(**{other: times, best: times})
    assert eventtime is not None
    assert (eventtime.column, eventtime.others) == (best, (other,))


def test_a_number_in_the_range_of_seconds_is_a_time_only_if_it_is_called_one() -> None:
    assert found(user_id=seconds([0, 1])) is None
    assert found(price=[1, 2], name=["a", "b"]) is None


def test_a_column_that_never_changes_is_the_last_choice() -> None:
    eventtime = found(event_time=seconds([0, 0, 0]), created_at=seconds([0, 1, 2]))
    assert eventtime is not None
    assert eventtime.column == "created_at"


def test_mostly_unreadable_texts_are_no_times() -> None:
    assert found(ts=["2026-01-01", "yesterday", "today", "tomorrow"]) is None


def test_some_rows_may_have_no_time() -> None:
    eventtime = found(ts=[*(f"2026-01-01T00:00:{at:02}Z" for at in range(40)), "noon"])
    assert eventtime is not None
    assert eventtime.readable == pytest.approx(40 / 41)


@pytest.mark.parametrize(
    ("offsets", "out_of_order", "most_s", "lag_s"),
    [
        (list(range(100)), 0, 0, 0),
        ([0, 3, 1, 2, 6, 4], 3, 2, 2),
        ([0, 40, 5], 1, 35, 60),
        # One stray row of a hundred does not decide.
        ([*range(0, 1_000, 10), 0], 1, 990, 0),
        # Many do.
        ([*range(0, 1_000, 10), *range(0, 100, 10)], 10, 990, 1_800),
    ],
)
def test_disorder(offsets: list[int], out_of_order: int, most_s: int, lag_s: int) -> None:
    eventtime = found(ts=seconds(offsets))
    assert eventtime is not None
    assert (eventtime.out_of_order, eventtime.most_us) == (out_of_order, most_s * 1_000_000)
    assert eventtime.lag_us == lag_s * 1_000_000


def test_each_partition_has_its_own_order() -> None:
    late, early = pa.table({"ts": seconds([1_000, 1_001])}), pa.table({"ts": seconds([0, 1])})
    eventtime = find_event_time([late, early], ["ts"])
    assert eventtime is not None
    assert eventtime.out_of_order == 0
