"""64 tasks and 64 shards: messages between them stay cheap, and nothing else grows with their number."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.wide import Layout as Width
from bench.wide import measure
from tests.spark.staged import Layout, staged

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SQL = "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY tumblingwindow('ss', 10), k"
STREAMS = {"s": {"schema": "ts BIGINT, k BIGINT, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_s"}}}
ROWS = [{"ts": 1, "k": number % 500, "v": number} for number in range(4_096)]


def run(tasks: int, shards: int) -> tuple[int, list[Any]]:
    """Bytes of all messages, and the results."""
    harness = staged(Layout(shards, tasks), SQL, streams=STREAMS, options={"eventtime.enabled": True})
    runner: Any = harness._runner
    sent, fold = [0], runner._fold

    def weighed(*arguments: Any) -> list[bytes]:
        payloads: list[bytes] = fold(*arguments)
        sent[0] += sum(map(len, payloads))
        return payloads

    runner._fold = weighed
    harness.push(ROWS)
    return sent[0], sorted(harness.end().rows, key=lambda row: int(str(row["k"])))


def test_messages_do_not_become_dearer_with_their_number() -> None:
    _, wanted = run(1, 1)
    some_bytes, results = run(32, 32)
    assert results == wanted
    many_bytes, results = run(64, 64)
    assert results == wanted
    # Four times as many messages. Tasks, shards and rows are part of both, so that four times as much is the most.
    assert many_bytes < 4 * 1.5 * some_bytes
    assert many_bytes / 64**2 < 4_000, "bytes of a message with a dozen groups"


def test_on_spark_only_messages_grow_with_tasks_times_shards(spark: SparkSession) -> None:
    """The same rows with 16, 32 and 64 tasks and shards. Judges what is moved, not the time."""
    rows = 64 * 128
    found = {width: measure(spark, Width(width, width, rows, keys=500, batches=1, warm_up=0)) for width in (16, 32, 64)}
    for width, cost in found.items():
        assert cost.read == rows
        assert cost.messages == width**2, "one message of each task to each shard, and nothing else is shuffled"
        assert cost.shuffle_bytes / cost.messages < 4_000
    for width in (32, 64):
        less, more = found[width // 2], found[width]
        assert more.shuffle_bytes < 4 * 1.2 * less.shuffle_bytes
        assert more.driver_bytes < 2 * 1.2 * less.driver_bytes, "reports, one of each shard"
