"""A backfill of a Kafka topic into the PostgreSQL table that the stream writes, and a check of it before and after."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.servers.world import Broker, Database, Job, projected
from windowpane.core.time_range import TimeRange
from windowpane.runtime.backfill_check import BackfillCheck
from windowpane.runtime.backfilling import Backfill

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.postgres]

HOUR_MS = 3_600_000
QUERY = (
    "SELECT window_start, k, count(*) AS n, sum(v) AS s, collect_list(v) AS vs FROM t "
    "GROUP BY tumblingwindow('ss', 10), k"
)


def test_a_topic_is_read_from_its_timestamps_on_and_late_rows_are_put_right(
    spark: SparkSession, kafka: Broker, database: Database, tmp_path: Path
) -> None:
    topic, start = kafka.topic("backfill", partitions=2), 1_000 * HOUR_MS

    def send(partition: int, *rows: tuple[int, str, int]) -> None:
        for second, k, v in rows:
            at = start + second * 1000
            kafka.send(topic, [{"ms": at, "k": k, "v": v}], partition, at_ms=at)

    send(0, (-HOUR_MS // 1000, "old", 1), (1, "a", 1), (11, "a", 2), (41, "a", 3))
    send(1, (2, "b", 4), (43, "b", 5))
    settings = {
        "streams": {
            "t": kafka.stream(topic, "k STRING, v BIGINT, ms BIGINT",
                              eventtime={"column": "ms", "type": "unixtimestamp_ms", "strict": True}),
        },
        "options": {"eventtime.enabled": True, "max_future_skew": "5m"},
        "transforms": {"q": {"sql": QUERY, "sink": "totals", "side_output": {"late": {"sink": "dlq"}}}},
        "sinks": {"totals": database.sink("totals"), "dlq": database.sink("dlq")},
    }  # fmt: skip
    job = Job(tmp_path, settings)
    job.run(spark)
    send(0, (12, "a", 6), (13, "new", 7))
    job.run(spark)
    asked = TimeRange(start * 1000, start * 1000 + 30_000_000)

    (found,) = BackfillCheck(Backfill(job.pipeline(), asked)).carry_out(spark)
    assert [(each.difference.key["k"], each.difference.kind, each.reason) for each in found.differences] == [
        ("a", "differs", "late"),
        ("new", "missing", "late"),
    ]
    assert found.backfilled.account.read == 5, "one row is older than the range, and two lie behind it"

    for _ in range(2):
        (done,) = Backfill(job.pipeline(), asked).carry_out(spark)
        assert done.outside == 2
        rows = database.rows("SELECT k, n, s FROM totals")
        assert projected(rows, "k", "n", "s") == [("a", 1, 1), ("a", 2, 8), ("b", 1, 4), ("new", 1, 7), ("old", 1, 1)]
    (same,) = BackfillCheck(Backfill(job.pipeline(), asked)).carry_out(spark)
    assert list(same.differences) == []
