"""Several topics by a pattern, from a point in time on, by the columnar scan."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.servers.world import Broker, Job, projected

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

MS = 1_700_000_000_000


def test_topics_of_a_pattern_from_a_time_on(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    first, second, other = kafka.topic("pattern-a", 2), kafka.topic("pattern-b"), kafka.topic("unlike")
    for topic, partition in [(first, 0), (first, 1), (second, 0), (other, 0)]:
        kafka.send(topic, [{"v": 1}, {"v": 2}], partition, at_ms=MS)
        kafka.send(topic, [{"v": 10}, {"v": 20}], partition, at_ms=MS + 60_000)
    stream = {
        "format": "kafka", "schema": "v BIGINT", "eventtime": {"column": "timestamp", "type": "timestamp"},
        "scan": "columnar",
        "options": {"subscribePattern": "pattern-.*", "startingTimestamp": MS + 1, **kafka.address},
    }  # fmt: skip
    query = "SELECT topic, count(*) AS n, sum(v) AS s FROM t GROUP BY tumblingwindow('mi', 1), topic"
    settings = {
        "streams": {"t": stream},
        "options": {"eventtime": {"enabled": True}},
        "transforms": {"q": {"sql": query, "sink": "results"}},
    }
    job = Job(tmp_path, settings, "results")
    last = job.run(spark, drain=True)[-2]
    assert projected(job.rows(), "topic", "n", "s") == [(first, 4, 60), (second, 2, 30)]
    assert set(last.maxima) == {f"t/{first}-0", f"t/{first}-1", f"t/{second}-0"}
