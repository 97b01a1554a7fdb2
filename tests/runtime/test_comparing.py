"""Results of a batch beside those of a stream: what counts as a difference, and which reason it gets."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest

from windowpane.checkpoint.ledger import Entry
from windowpane.connectors.read_back import ORDER, ReadBack
from windowpane.core.time_range import TimeRange
from windowpane.runtime.comparing import ComparedColumns, Difference, compare
from windowpane.runtime.difference_reasons import Closing, SideRecord, StreamFacts
from windowpane.testing import Harness

SECOND = 1_000_000
SCHEMA = pa.schema({"window_start": pa.timestamp("us", "UTC"), "k": pa.string(), "x": pa.float64(), "n": pa.int64()})
STREAM = {"schema": "k STRING, v DOUBLE, ts TIMESTAMP", "eventtime.column": "ts"}
QUERY = "SELECT window_start, k, sum(v) AS x, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), k"
Row = tuple[int, str | None, float | None, int]


def columns(sql: str = QUERY, names: tuple[str, ...] = ()) -> ComparedColumns:
    harness = Harness(sql, streams={"s": STREAM}, options={"eventtime.enabled": True})
    return ComparedColumns.of(harness.plan.stages, names)


def table(*rows: Row, order: list[Any] | None = None) -> pa.Table:
    listed = [dict(zip(SCHEMA.names, (row[0] * SECOND, *row[1:]), strict=True)) for row in rows]
    made = pa.Table.from_pylist(listed, SCHEMA)
    return made if order is None else made.append_column(ORDER, pa.array(order))


def found(expected: pa.Table, emitted: pa.Table, sql: str = QUERY, asked: TimeRange | None = None) -> list[Any]:
    compared = compare(ReadBack(expected, emitted), columns(sql), asked or TimeRange(0, 100 * SECOND))
    return [(each.kind, each.key["window_start"].second, each.key["k"]) for each in compared.differences]


def test_equal_results_in_another_order_are_the_same() -> None:
    rows: list[Row] = [(0, "a", 1.0, 1), (0, None, None, 0), (10, "a", float("nan"), 2), (10, "ü", float("inf"), 1)]
    assert found(table(*rows), table(*reversed(rows))) == []
    assert found(table(), table()) == []


def test_missing_extra_and_other_values_are_told_apart() -> None:
    expected = table((0, "a", 1.0, 1), (0, "b", 2.0, 1), (10, None, 3.0, 1))
    emitted = table((0, "a", 1.0, 2), (10, None, 3.0, 1), (20, "c", 4.0, 1))
    assert found(expected, emitted) == [("differs", 0, "a"), ("missing", 0, "b"), ("extra", 20, "c")]


def test_results_of_the_stream_outside_the_range_do_not_count() -> None:
    emitted = table((0, "a", 1.0, 1), (10, "a", 1.0, 1), (20, "a", 1.0, 1))
    assert found(table((10, "a", 1.0, 1)), emitted, asked=TimeRange(10 * SECOND, 20 * SECOND)) == []


@pytest.mark.parametrize(("value", "differs"), [(0.1 + 0.2, False), (0.3000001, True), (None, True)])
def test_floats_may_differ_in_their_last_digits(value: float | None, differs: bool) -> None:
    assert bool(found(table((0, "a", 0.3, 1)), table((0, "a", value, 1)))) == differs


def test_the_last_emission_of_a_window_counts_where_updates_are_emitted() -> None:
    emitted = table((0, "a", 1.0, 1), (0, "a", 3.0, 2), (0, "b", 1.0, 1), order=["part-1", "part-2", "part-1"])
    expected = table((0, "a", 3.0, 2), (0, "b", 1.0, 1))
    assert found(expected, emitted, f"{QUERY} EMIT ON UPDATE") == []
    assert found(expected, emitted) == [("differs", 0, "a"), ("extra", 0, "a")]


def test_which_columns_name_a_result() -> None:
    plain = columns()
    assert (plain.keys, plain.values, plain.start, plain.complete) == (
        ("window_start", "k"), ("x", "n"), "window_start", True,
    )  # fmt: skip
    identified = columns(names=("_window_id", "_group_key"))
    assert (identified.keys, identified.named) == (("_window_id", "_group_key"), ("window_start", "k"))
    assert columns("SELECT sum(v) AS x FROM s GROUP BY tumblingwindow('ss', 10), k").start is None


def entry(**changed: Any) -> Entry:
    totals = {"late": 0, "evicted": 0} | changed.pop("totals", {})
    return Entry(0, 0, changed.pop("watermark_us", 50 * SECOND), {}, totals, 0, **changed)


def record(kind: str, second: int, group: dict[str, Any] | None = None) -> SideRecord:
    at = dt.datetime.fromtimestamp(second, dt.UTC).isoformat()
    read = SideRecord.read(json.dumps({"kind": kind, "event_time": at, "window": None, "group_key": group}))
    assert read is not None
    return read


MISSING = Difference("missing", {"k": "a"}, {"k": "a", "n": 1}, None, 10 * SECOND)
TUMBLING = Closing(0, 10 * SECOND, 5 * SECOND)


@pytest.mark.parametrize(
    ("last", "records", "reason", "evidence"),
    [
        (entry(), [record("late", 12)], "late", "the side output has 1 late row of this window"),
        (entry(), [record("late", 12, {"k": "a"}), record("late", 13, {"k": "a"})], "late", "2 late rows"),
        (entry(), [record("late", 12, {"k": "b"})], "unknown", "no late or evicted row"),
        (entry(), [record("late", 20), record("evicted", 19)], "evicted", "1 evicted row of this window"),
        (entry(totals={"late": 3}), [record("late", 40)], "late", "probably: the ledger counts 2 late rows that no"),
        (entry(totals={"late": 3}, sums={"dropped": {"late": 3}}), [], "late", "3 records were dropped by a rate"),
        (entry(watermark_us=24 * SECOND), [record("late", 12)], "not_closed", "at 1970-01-01T00:00:24"),
        (entry(watermark_us=25 * SECOND), [], "unknown", "no late"),
        (entry(watermark_us=None), [], "not_closed", "nothing yet"),
        (None, [], "not_closed", "nothing yet"),
    ],
)
def test_the_reason_comes_from_the_side_output_then_from_the_ledger(
    last: Entry | None, records: list[SideRecord], reason: str, evidence: str
) -> None:
    (explained,) = StreamFacts(last, finished=False, closing=TUMBLING, records=records).explain([MISSING])
    assert explained.reason == reason
    assert evidence in explained.evidence
    assert explained.as_dict()["batch"] == {"k": "a", "n": 1}


def test_results_that_wait_for_their_sink_are_not_lost() -> None:
    facts = StreamFacts(entry(totals={"late": 1}), finished=False, closing=TUMBLING, waiting=7)
    (explained,) = facts.explain([MISSING])
    assert (explained.reason, explained.evidence) == ("waiting", "7 results wait in the checkpoint for the sink")


def test_a_finished_stream_has_no_open_windows() -> None:
    (explained,) = StreamFacts(entry(watermark_us=0), finished=True, closing=TUMBLING).explain([MISSING])
    assert explained.reason == "unknown"


@pytest.mark.parametrize("text", ["", "[]", '{"kind": "error"}', '{"kind": "late"', '{"kind": "late", "window": 3}'])
def test_texts_that_are_no_records_of_lost_rows_are_ignored(text: str) -> None:
    assert SideRecord.read(text) is None


def test_a_sliding_window_is_named_by_its_trigger() -> None:
    sql = "SELECT trigger_time, sum(v) AS x FROM s GROUP BY slidingwindow('ss', 10, 5)"
    stages = Harness(sql, streams={"s": STREAM}, options={"eventtime.enabled": True}).plan.stages
    at = Difference("missing", {}, {}, None, 100 * SECOND)
    assert Closing.of(stages).bounds(at) == (90 * SECOND, 105 * SECOND + 1)
