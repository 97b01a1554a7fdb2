"""Kafka sinks with exactly-once delivery: one transaction a batch, repeated batches skipped, processes killed."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from scripts.servers import connector_jars
from tests.servers.world import Broker, Job, routes_to
from windowpane.connectors.kafka import KafkaSink
from windowpane.connectors.kafka_exactly_once import ExactlyOnceKafkaSink
from windowpane.connectors.retrying import may_pass
from windowpane.connectors.sinks import Sink, SinkBatch, SinkSettings
from windowpane.core.time_range import TimeRange
from windowpane.errors import ConfigError, SinkError, StateError
from windowpane.remote.access import NO_ACCESS
from windowpane.runtime.backfill_check import BackfillCheck
from windowpane.runtime.backfilling import Backfill

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SCHEMA = "k STRING, v BIGINT, ms BIGINT"
TIMED = {"column": "ms", "type": "unixtimestamp_ms", "strict": True}
KILLED = """
import json, os, signal, sys
from pathlib import Path
import windowpane.connectors.kafka_transactions as transactions
from windowpane.runtime import Pipeline

class Killed(transactions.Producer):
    commits = 0
    def commit_transaction(self, *given):
        Killed.commits += 1
        if Killed.commits == 3 and sys.argv[3] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit_transaction(*given)
        if Killed.commits == 3:
            os.kill(os.getpid(), signal.SIGKILL)

transactions.Producer = Killed
Pipeline.from_dict(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]).start().wait()
"""


def once(kafka: Broker, topic: str, **more: str) -> ExactlyOnceKafkaSink:
    sink = KafkaSink.create(
        "out", SinkSettings("kafka", None, {"topic": topic, **kafka.address, **more}, None, "exactly_once")
    )
    assert isinstance(sink, ExactlyOnceKafkaSink)
    return sink


def emissions(spark: SparkSession, *numbers: int) -> DataFrame:
    schema = "n BIGINT, _window_id STRING, _group_key STRING, _emit_epoch BIGINT, _is_final BOOLEAN"
    return spark.createDataFrame([(n, "0" * 16, f'{{"k":{n}}}', 1, True) for n in numbers], schema)


def batch(frame: DataFrame, batch_id: int, **more: Any) -> SinkBatch:
    return SinkBatch(batch_id, lambda: frame, **{"transform": "q", "run": "r1", "identified": True, "rows": 3, **more})


@pytest.fixture
def closing() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def test_a_batch_that_comes_again_is_skipped_and_only_the_last_process_writes(
    kafka: Broker, spark: SparkSession, closing: contextlib.ExitStack
) -> None:
    topic = kafka.topic("once", 2)

    def seen() -> list[int]:
        return sorted(message.value["n"] for message in kafka.read(topic, committed=True))

    first, second = once(kafka, topic), once(kafka, topic)
    for sink in (first, second):
        closing.callback(sink.close)
    first.check(["n"])
    first.write(batch(emissions(spark, 1, 2), 0, fence=1))
    first.write(batch(emissions(spark, 1, 2), 0, fence=1))
    second.write(batch(emissions(spark, 1, 2), 0, fence=2))
    second.write(batch(emissions(spark, 3), 1, fence=2))
    assert seen() == [1, 2, 3]
    with pytest.raises(SinkError) as fenced:
        first.write(batch(emissions(spark, 4), 2, fence=1))
    assert "fenced" in fenced.value.message.lower()
    with pytest.raises(StateError) as followed:
        first.write(batch(emissions(spark, 4), 2, fence=1))
    assert followed.value.code == "LEASE_LOST"
    second.write(replace(batch(emissions(spark, 5), 2, fence=2)))
    assert seen() == [1, 2, 3, 5]

    second.write(batch(emissions(spark, 6), 0, run="r2"))
    second.write(batch(spark.createDataFrame([('{"n": 7}',)], "value STRING"), 0, side_records=True, identified=False))
    assert seen() == [1, 2, 3, 5, 6, 7], "a new checkpoint, and side records, count for themselves"

    assert second.count_rows(NO_ACCESS, runs=["r1"], transform="q", side=False) == {0: 2, 1: 1, 2: 1}
    assert second.count_rows(NO_ACCESS, runs=["r1", "r2"], transform="q", side=False) == {0: 3, 1: 1, 2: 1}
    assert second.count_rows(NO_ACCESS, runs=["r1"], transform="q", side=True) == {0: 1}
    assert second.read_side(NO_ACCESS, runs=["r1"], transform="q") == [(0, '{"n": 7}')]
    assert second.read_side(NO_ACCESS, runs=["r2"], transform="q") == []

    def is_followed() -> None:
        raise StateError("LEASE_LOST", "another process", None)

    with pytest.raises(StateError):
        second.write(batch(emissions(spark, 8), 3, fence=2, check_lease=is_followed))
    assert seen() == [1, 2, 3, 5, 6, 7], "sent, and taken back before it could be seen"

    large = spark.createDataFrame([("x" * 2_000_000,)], "value STRING")
    with pytest.raises(SinkError) as refused:
        second.write(batch(large, 1, side_records=True, identified=False))
    assert second.refuses_record(refused.value)
    # A graceful end wrote batch 3 and died: what it wrote stays, and the batch of the next start follows.
    second.write(batch(emissions(spark, 9), 3, fence=2, final=True))
    second.write(batch(emissions(spark, 9), 3, fence=2, final=True))
    second.write(batch(emissions(spark, 10), 3, fence=2))
    assert seen() == [1, 2, 3, 5, 6, 7, 9, 10]


def test_what_cannot_work_is_refused(kafka: Broker, closing: contextlib.ExitStack) -> None:
    topic = kafka.topic("once")

    def mistake(sink: Sink) -> str:
        with pytest.raises(SinkError) as found:
            sink.check(["n"])
        assert not may_pass(found.value)
        return found.value.message

    deleted = kafka.topic("numbers")
    assert "cleanup.policy `delete`" in mistake(once(kafka, topic, batches_topic=deleted))
    assert "there is no topic `nowhere`" in mistake(once(kafka, "nowhere"))
    with pytest.raises(ConfigError) as unknown:
        once(kafka, topic, **{"kafka.interceptor.classes": "x"})
    assert unknown.value.key == "sinks.out.options.kafka.interceptor.classes"
    with pytest.raises(ConfigError) as ignored:
        once(kafka, topic, includeHeaders="true")
    assert ignored.value.code == "UNKNOWN_KEY"
    with pytest.raises(ConfigError) as needless:
        KafkaSink.create("out", SinkSettings("kafka", None, {"topic": topic, **kafka.address, "batches_topic": "x"}))
    assert needless.value.code == "CONFLICTING_KEYS"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_killed_around_its_commit_leaves_each_result_once(
    kafka: Broker, spark: SparkSession, tmp_path: Path, moment: str
) -> None:
    """Its messages are there and not committed, or committed and not in the ledger; side rows go to Kafka too."""
    topic, out, dlq = kafka.topic("in"), kafka.topic("out", 2), kafka.topic("dlq")
    kafka.send(topic, [{"k": f"k{n % 3}", "v": n, "ms": n * 1000} if n % 10 else "{broken" for n in range(1, 121)])
    query = "SELECT window_start, k, count(*) AS n, sum(v) AS s FROM t GROUP BY tumblingwindow('ss', 10), k"
    job = Job(
        tmp_path,
        {
            "streams": {"t": kafka.stream(topic, SCHEMA, eventtime=TIMED, options={"maxOffsetsPerTrigger": 30})},
            "options": {"eventtime.enabled": True},
            "transforms": {"q": {"sql": query, "sink": "out", "side_output": routes_to("dlq", "error")}},
            "sinks": {
                "out": kafka.sink(out, delivery="exactly_once"),
                "dlq": kafka.sink(dlq, delivery="exactly_once"),
            },
        },
    )
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(job.settings | {"spark": {"master": "local[2]", "jars": connector_jars()}}))
    command = [sys.executable, "-c", KILLED, str(settings), str(tmp_path), moment]
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=400).returncode == -signal.SIGKILL
    job.run(spark, drain=True)

    wanted: dict[tuple[int, str], list[int]] = {}
    for n in range(1, 121):
        if n % 10:
            found = wanted.setdefault((n // 10 * 10, f"k{n % 3}"), [0, 0])
            found[0], found[1] = found[0] + 1, found[1] + n
    got = kafka.read(out, committed=True)
    assert sorted((message.value["k"], message.value["n"], message.value["s"]) for message in got) == sorted(
        (k, *counts) for (_, k), counts in wanted.items()
    )
    broken = [message.value["original_event"]["offset"] for message in kafka.read(dlq, committed=True)]
    assert sorted(broken) == list(range(9, 120, 10))
    (checked,) = BackfillCheck(Backfill(job.pipeline(), TimeRange())).carry_out(spark)
    assert (checked.results, list(checked.differences)) == (len(wanted), [])
