"""What sinks leave behind: upserts and keyed corrections, one copy of a batch that comes twice, every type."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.servers.world import Broker, Database, Job, projected, routes_to
from windowpane.checkpoint.lease import lease_lost
from windowpane.connectors.postgres.sink import PostgresSink
from windowpane.connectors.retrying import RetryingSink
from windowpane.connectors.sinks import SinkBatch
from windowpane.errors import ConfigError, SinkError, StateError

pytestmark = [pytest.mark.spark]

MakeSink = Callable[..., PostgresSink]
SCHEMA = "k STRING, v BIGINT, ms BIGINT"
TIMED = {"column": "ms", "type": "unixtimestamp_ms", "strict": True}


def row(second: float, k: str | None = "a", v: int = 1) -> dict[str, object]:
    return {"k": k, "v": v, "ms": round(second * 1000)}


@pytest.mark.kafka
@pytest.mark.postgres
def test_corrections_replace_in_postgres_and_are_keyed_in_kafka(
    kafka: Broker, database: Database, spark: SparkSession, tmp_path: Path
) -> None:
    topic, out, dlq = kafka.topic("in"), kafka.topic("out"), kafka.topic("dlq")
    query = (
        "SELECT window_start, k, count(*) AS n, sum(v) AS s FROM t GROUP BY tumblingwindow('ss', 10), k EMIT ON UPDATE"
    )
    transform = {
        "sql": query,
        "sink": ["table", "history", "out"],
        "allowed_lateness": "20s",
        "side_output": routes_to("dlq", "error") | routes_to("late", "late"),
    }
    sinks = {
        "table": database.sink("totals"),
        "history": database.sink("history", mode="append"),
        "late": database.sink("late_rows"),
        "out": kafka.sink(out),
        "dlq": kafka.sink(dlq),
    }
    streams = {"t": kafka.stream(topic, SCHEMA, eventtime=TIMED)}
    job = Job(
        tmp_path,
        {"streams": streams, "options": {"eventtime.enabled": True}, "transforms": {"q": transform}, "sinks": sinks},
    )
    kafka.send(topic, [row(1, "a", 5), row(2, None, 1), row(11, "a", 1), "{broken"])
    job.run(spark)
    kafka.send(topic, [row(3, "a", 2)])
    job.run(spark)
    kafka.send(topic, [row(45, "z", 9)])
    job.run(spark)
    kafka.send(topic, [row(4, "a", 100)])
    job.run(spark)

    table = database.rows("SELECT * FROM totals ORDER BY window_start, k")
    assert [(found["k"], found["n"], found["s"], found["_emit_epoch"], found["_is_final"]) for found in table] == [
        ("a", 2, 7, 3, True), (None, 1, 1, 2, True), ("a", 1, 1, 2, True), ("z", 1, 9, 1, False),
    ]  # fmt: skip
    assert [json.loads(found["_group_key"]) for found in table] == [{"k": "a"}, {"k": None}, {"k": "a"}, {"k": "z"}]
    history = database.rows("SELECT * FROM history")
    first = [
        (f["_emit_epoch"], f["s"], f["_is_final"]) for f in history if f["k"] == "a" and f["window_start"].second < 10
    ]
    assert sorted(first) == [(1, 5, False), (2, 7, False), (3, 7, True)]

    messages = kafka.read(out)
    assert len(messages) == len(history)
    latest = {message.key: message for message in messages}
    assert len(latest) == len(table), "a compacted topic would keep what the table holds"
    for found in table:
        key = json.dumps({"window_id": found["_window_id"], "group_key": {"k": found["k"]}}, separators=(",", ":"))
        last = latest[key]
        assert last.value["s"] == found["s"]
        assert last.headers["emit_epoch"] == str(found["_emit_epoch"])
        assert last.headers["window_id"] == found["_window_id"]
        assert (last.headers["transform"], last.headers["is_final"]) == ("q", str(found["_is_final"]).lower())
    assert messages[0].value["window_start"] == "1970-01-01T00:00:00.000000Z"

    assert [message.value["original_event"]["_corrupt_record"] for message in kafka.read(dlq)] == ["{broken"]
    late = database.rows("SELECT record->>'reason' AS reason, record->'original_event'->>'v' AS v FROM late_rows")
    assert late == [{"reason": "allowed_lateness_exceeded", "v": "100"}]


@pytest.fixture
def sink(database: Database) -> Iterator[Callable[..., PostgresSink]]:
    """Makes sinks, and closes them."""
    with contextlib.ExitStack() as made:

        def make(table: str = "t", mode: str | None = None) -> PostgresSink:
            sink = PostgresSink("results", {"url": database.url, "table": table}, mode)
            made.callback(sink.close)
            return sink

        yield make


def batch(frame: DataFrame, batch_id: int, **more: Any) -> SinkBatch:
    return SinkBatch(batch_id, lambda: frame, transform="q", run="r1", rows=frame.count(), **more)


def emissions(spark: SparkSession, *rows: tuple[str, str, int, bool, int]) -> DataFrame:
    schema = "_window_id STRING, _group_key STRING, _emit_epoch BIGINT, _is_final BOOLEAN, n BIGINT"
    return spark.createDataFrame(list(rows), schema).select("n", "_window_id", "_group_key", "_emit_epoch", "_is_final")


@pytest.mark.postgres
def test_a_batch_that_comes_again_changes_nothing(database: Database, sink: MakeSink, spark: SparkSession) -> None:
    table, history = sink(), sink("h", "append")
    one = emissions(
        spark, ("w", '{"k":1}', 1, False, 10), ("w", '{"k":1}', 2, False, 11), ("w", '{"k":2}', 1, True, 20)
    )
    two = emissions(spark, ("w", '{"k":1}', 3, True, 12))
    for to in (table, history):
        to.write(batch(one, 0, identified=True))
        to.write(batch(two, 1, identified=True))
        to.write(batch(one, 0, identified=True))
        to.close()
        to.write(batch(two, 1, identified=True))
    assert projected(database.rows("SELECT * FROM t"), "_group_key", "n") == [('{"k":1}', 12), ('{"k":2}', 20)]
    assert projected(database.rows("SELECT * FROM h"), "n") == [(10,), (11,), (12,), (20,)]

    history.write(replace(batch(two, 0, identified=True), run="r2"))
    assert projected(database.rows("SELECT * FROM h"), "n") == [(10,), (11,), (12,), (12,), (20,)], "a new checkpoint"

    # A graceful end wrote batch 2 and died; the next start reads on, and its batch 2 is another one.
    for to in (table, history):
        to.write(batch(emissions(spark, ("w2", "{}", 1, True, 99)), 2, identified=True, final=True))
        to.write(batch(emissions(spark, ("w2", "{}", 1, True, 100)), 2, identified=True))
    for name in ("t", "h"):
        assert projected(database.rows(f"SELECT n FROM {name} WHERE _window_id = 'w2'"), "n") == [(100,)]
    assert len(database.rows("SELECT * FROM windowpane_batches")) == 7


@pytest.mark.postgres
def test_a_process_that_was_followed_writes_nothing(database: Database, sink: MakeSink, spark: SparkSession) -> None:
    def rows(number: int) -> DataFrame:
        return emissions(spark, ("w", "{}", 1, True, number))

    before, after = sink(), sink()
    before.write(batch(rows(1), 0, identified=True, fence=1))
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("ALTER TABLE windowpane_batches DROP COLUMN fence")  # as an earlier version made it
    after.write(batch(rows(2), 1, identified=True, fence=2))
    with pytest.raises(StateError) as lost:
        before.write(batch(rows(3), 2, identified=True, fence=1))
    assert lost.value.code == "LEASE_LOST"

    def is_followed() -> None:
        raise lease_lost("s3a://bucket/state")

    with pytest.raises(StateError):
        after.write(batch(rows(4), 2, identified=True, fence=2, check_lease=is_followed))
    assert projected(database.rows("SELECT * FROM t"), "n") == [(2,)]
    assert [row["batch_id"] for row in database.rows("SELECT * FROM windowpane_batches")] == [0, 1]
    after.write(batch(rows(5), 2, identified=True, fence=2))
    assert projected(database.rows("SELECT * FROM t"), "n") == [(5,)]


@pytest.mark.postgres
def test_sinks_that_come_at_once_make_their_tables_once(
    database: Database, sink: MakeSink, spark: SparkSession
) -> None:
    frame = emissions(spark, ("w", "{}", 1, True, 1))
    sinks = [sink("shared") for _ in range(6)]
    with ThreadPoolExecutor(len(sinks)) as pool:
        list(pool.map(lambda pair: pair[1].write(batch(frame, pair[0], identified=True)), enumerate(sinks)))
    assert database.rows("SELECT count(*) AS n FROM windowpane_batches") == [{"n": 6}]
    assert projected(database.rows("SELECT * FROM shared"), "n") == [(1,)]


@pytest.mark.postgres
def test_values_of_every_type_arrive_as_they_are(
    database: Database, sink: MakeSink, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windowpane.connectors.collecting.ROWS_AT_ONCE", 1)
    query = r"""SELECT * FROM VALUES
      (1Y, 2S, 3, 4L, CAST(1.5 AS FLOAT), 0.1D, 12.340BD, TRUE, 'a"b,\n\\', X'00FF', DATE'2024-02-29',
       TIMESTAMP'2024-05-01 12:00:00.123456Z', TIMESTAMP_NTZ'1969-12-31 23:59:59.999999', array(1, NULL),
       named_struct('x', 'nul \u0000 here', 'y', '\\u0000'), timestamp_micros(1700000000000000000), map('k', 1)),
      (NULL, NULL, NULL, NULL, CAST('NaN' AS FLOAT), DOUBLE('-Infinity'), NULL, NULL, 'nul \u0000 here', NULL,
       DATE'-9999-01-01', timestamp_micros(-300000000000000000), NULL, NULL, NULL, NULL, NULL),
      (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
      AS t(i1, i2, i4, i8, f4, f8, d, b, s, bin, day, ts, ntz, a, st, far, m)"""
    frame = spark.sql(query).repartition(2)
    sink().write(batch(frame, 0))
    full, odd, empty = database.rows(
        "SELECT i1, i2, i4, i8, f4, f8, d, b, s, bin, CASE WHEN isfinite(day) THEN day END AS day, ntz, a, st, m, "
        "CASE WHEN isfinite(ts) THEN ts END AS ts, ts = '-infinity' AS early, extract(year FROM far) AS year, "
        "day = '-infinity' AS early_day FROM t ORDER BY i1, f4 NULLS LAST"
    )
    assert [full[name] for name in ("i1", "i2", "i4", "i8", "f4", "f8", "d", "b", "s", "bin")] == [
        1, 2, 3, 4, 1.5, 0.1, decimal.Decimal("12.340"), True, 'a"b,\n\\', b"\x00\xff",
    ]  # fmt: skip
    assert full["day"] == dt.date(2024, 2, 29)
    assert full["ts"] == dt.datetime(2024, 5, 1, 12, 0, 0, 123456, dt.UTC)
    assert full["ntz"] == dt.datetime.fromisoformat("1969-12-31 23:59:59.999999")
    assert (full["a"], full["m"]) == ([1, None], {"k": 1})
    assert full["st"] == {"x": "nul � here", "y": "\\u0000"}
    assert full["year"] == 55840
    assert (str(odd["f4"]), odd["f8"], odd["s"]) == ("nan", float("-inf"), "nul � here")
    assert (odd["early"], odd["early_day"]) == (True, True)
    assert (empty["s"], empty["i8"]) == ("", None)


@pytest.mark.postgres
def test_what_will_not_pass_is_not_tried_again_and_shows_no_password(
    database: Database, sink: MakeSink, spark: SparkSession
) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("CREATE TABLE mine (n bigint)")
    frame = emissions(spark, ("w", "{}", 1, True, 1))
    with pytest.raises(SinkError) as refused:
        retrying(sink("mine")).write(batch(frame, 0, identified=True))
    assert refused.value.code == "SINK_TABLE"
    assert "_window_id, _group_key" in refused.value.message

    away = PostgresSink("results", {"url": "postgresql://me@127.0.0.1:1/x", "table": "t", "password": "hush-hush"})
    with pytest.raises(SinkError) as failed:
        retrying(away, lambda text: text.replace("127.0.0.1", "***")).write(batch(frame, 0))
    assert failed.value.code == "SINK_FAILED"
    assert "tried 2 times" in failed.value.message
    assert "127.0.0.1" not in failed.value.message
    with pytest.raises(ConfigError) as mistaken:
        PostgresSink("results", {"url": "hush-hush and more", "table": "t"})
    assert (mistaken.value.code, "hush" in mistaken.value.render()) == ("BAD_URL", False)
    with pytest.raises(ConfigError) as ungrouped:
        sink(mode="update").open(spark, identified=False)
    assert ungrouped.value.code == "UPDATE_WITHOUT_GROUPS"


def test_mistakes_are_found_before_the_first_batch(database: Database, sink: MakeSink) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("CREATE TABLE mine (n bigint, _batch bigint)")
        connection.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")

    def mistake(to: PostgresSink, *, identified: bool = False) -> tuple[str, bool]:
        spark: Any = None
        to.open(spark, identified=identified)
        with pytest.raises(SinkError) as found:
            to.check(["n"])
        return found.value.message, retrying(to).may_pass(found.value)

    sink("mine").check(["n"])
    sink("new").check(["n"])
    assert mistake(sink("mine"), identified=True) == (
        "sink `results`: table `mine` has no column _window_id, _group_key, _emit_epoch, _is_final, _group_id", False,
    )  # fmt: skip
    other = {"url": database.url, "table": "new"}
    message, passing = mistake(PostgresSink("results", other | {"user": "guest"}))
    assert ("may not be created" in message, passing) == (True, False)
    message, passing = mistake(PostgresSink("results", other | {"user": "nobody"}))
    assert ('role "nobody" does not exist' in message, passing) == (True, False)
    assert mistake(PostgresSink("results", other | {"url": "postgresql://me@127.0.0.1:1/x"}))[1] is True


def retrying(to: PostgresSink, redact: Callable[[str], str] = str) -> RetryingSink:
    return RetryingSink(to, threading.Event(), (0.01,), redact)
