"""Values in other formats than JSON, read by the columnar scan and by Spark: the same rows and the same error rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.scan.test_codecs import AVRO, BAD_AVRO, bid
from tests.servers.world import Broker, Job, projected, routes_to

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

QUERY = "SELECT k, count(*) AS n, sum(v) AS s, sum(id) AS ids FROM t GROUP BY tumblingwindow('ss', 10), k"
FORMATS: dict[str, tuple[list[bytes], list[bytes], dict[str, str]]] = {
    "avro": ([bid(b"a", n, n / 2) for n in range(50)], BAD_AVRO, {"schema_file": "bid.avsc"}),
    "csv": ([b"a,%d,0.5" % n for n in range(50)], [b"a", b"a,x,1"], {}),
}


def run(kafka: Broker, spark: SparkSession, folder: Path, topic: str, *, name: str, scan: str) -> list[Any]:
    folder.mkdir()
    (folder / "bid.avsc").write_text(json.dumps(AVRO), encoding="utf-8")
    stream = kafka.stream(
        topic, "k STRING, v BIGINT, x DOUBLE", value_format=name, scan=scan, options=FORMATS[name][2],
        key_format="csv", key_schema="id BIGINT", eventtime={"column": "timestamp", "type": "timestamp"},
    )  # fmt: skip
    settings = {
        "streams": {"t": stream},
        "options": {"eventtime": {"enabled": True}},
        "transforms": {"q": {"sql": QUERY, "sink": "results", "side_output": routes_to("dlq", "error")}},
    }
    job = Job(folder, settings, "results", "dlq")
    assert (job.pipeline().plans[0].scan is not None) == (scan == "columnar")
    job.run(spark, drain=True)
    texts = [
        (record["original_event"]["offset"], record["original_event"]["_corrupt_record"]) for record in job.records()
    ]
    return [projected(job.rows(), "k", "n", "s", "ids"), sorted(texts)]


@pytest.mark.parametrize("name", FORMATS)
def test_both_ways_give_the_same(kafka: Broker, spark: SparkSession, tmp_path: Path, name: str) -> None:
    topic = kafka.topic(name)
    good, bad, _ = FORMATS[name]
    kafka.send(topic, [*bad, *good], at_ms=1000)
    kafka.send(topic, good[:3], at_ms=1000, key=b"7")
    kafka.send(topic, good[:2], at_ms=1000, key=b"seven")
    found = run(kafka, spark, tmp_path / "a", topic, name=name, scan="columnar")
    assert found[0] == [("a", 53, sum(range(50)) + 3, 21)]
    assert [text for _, text in found[1]][len(bad) :] == ["key: seven"] * 2
    assert run(kafka, spark, tmp_path / "b", topic, name=name, scan="spark") == found
