"""Side outputs on real Spark: sinks that are away, rows that are read again, metrics of a pipeline that runs."""

from __future__ import annotations

import json
import logging
import urllib.request
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import DataFrame, SparkSession

from tests.spark.jobs import KINDS, Job, Outcome, Query, assert_same, counted, finish, in_harness, run_together
from tests.spark.test_queries import LAG, SCHEMA, made_rows
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.status import StatusFile
from windowpane.connectors.sinks import CallableSink
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark

TUMBLING = Query(
    "SELECT k, count(*) AS n, sum(v) AS s, window_start FROM s GROUP BY tumblingwindow('ss', 3), k", {"s": SCHEMA}, LAG
)
ROWS = made_rows(5, 40, spread_ms=16_000)
BATCHES = [ROWS[low : low + 10] for low in range(0, 40, 10)]
TOLD_APART = ("processing_time", "original_event", "transform")
"""Fields that differ between harness and Spark."""
AGAIN = {kind: {"sink": "dlq", "include_original": True} for kind in KINDS} | {
    "late": {
        "sink": "reinject", "enable_reinject": True, "max_reinjections": 2, "then": "dlq", "include_original": True,
    }
}  # fmt: skip


class Away:
    """A callable sink that raises until it is told otherwise."""

    def __init__(self) -> None:
        self.away, self.batches = True, dict[int, list[dict[str, Any]]]()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        if self.away:
            raise ConnectionError("the broker is away")
        self.batches[batch_id] = [json.loads(row[0]) for row in frame.collect()]


def scraped(url: str) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples]
    return {(sample.name.removeprefix("windowpane_"), *_labels(sample.labels)): sample.value for sample in samples}


def _labels(labels: dict[str, str]) -> list[str]:
    """The transform first."""
    return [labels[name] for name in sorted(labels, key=lambda name: (name != "transform", name))]


def test_a_side_sink_that_is_away_neither_stops_nor_loses_anything(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Main output and metrics while it is away; after a restart it gets every batch once, in order."""
    job, dlq = Job(tmp_path, TUMBLING).feed_all(BATCHES), Away()
    settings = job.settings()
    settings["options"] |= {"metrics": {"port": 0}, "max_side_backlog": 6}
    given = {"results": job.results, "dlq": CallableSink("dlq", dlq)}
    wanted = in_harness(TUMBLING, BATCHES, drain=True)
    late = sum(record["kind"] == "late" for record in wanted.all_side)
    assert late > 6

    with caplog.at_level(logging.WARNING, "windowpane"):
        running = Pipeline.from_dict(settings, tmp_path, sinks=given).start(spark)
        running.wait()
        assert running.metrics is not None
        found = scraped(running.metrics.url)
        running.stop()
    entry = job.outcome().entries[-1]
    assert found["rows_read_total", "q"] == 40
    assert found["late_dropped_count_total", "q"] == found["rows_total", "q", "late"] == late
    assert sum(value for name, value in found.items() if name[0] == "rows_total") == 40
    assert found["side_rows_total", "q", "late", "dlq"] == late
    assert found["side_rows_dropped_total", "q", "late"] == late - 6, "room for six"
    assert (found["side_rows_waiting", "q", "dlq"], found["side_sink_up", "q", "dlq"]) == (6, 0)
    assert found["event_times_total", "q", "stream_column"] == 40
    assert found["max_timestamp_seen", "q"] * 1e6 == max(entry.maxima.values())
    assert entry.watermark_us is not None
    assert found["watermark_timestamp", "q"] * 1e6 == entry.watermark_us
    assert found["watermark_lag_seconds", "q"] > 1e9
    assert found["watermark_emitted_count_total", "q"] == entry.watermarks > 1
    assert found["open_windows", "q"] == entry.open_windows > 0
    assert found["state_bytes", "q"] == entry.state_bytes > 0
    assert found["batch_seconds_count", "q"] == len(BATCHES)
    assert (found["buffer_size", "q"], found["up", "running"]) == (0, 1)
    said = [record.getMessage() for record in caplog.records]
    assert len([text for text in said if "side sink `dlq` fails" in text]) == 1
    assert len([text for text in said if "side_output.late is over its limit" in text]) == 1
    assert any("has 6 undelivered rows: they stay in" in text for text in said)
    status = StatusFile(FolderStore(tmp_path / "state")).read()
    assert status is not None
    assert status["transforms"]["q"]["side_sinks"]["dlq"]["waiting"] == 6
    assert status["metrics"] == running.metrics.url

    dlq.away = False
    finish(Pipeline.from_dict(settings, tmp_path, sinks=given).start(spark), drain=True)
    got = job.outcome()
    assert_same(replace(got, side={}), replace(wanted, side={}))
    kept = [record for batch in sorted(dlq.batches) for record in dlq.batches[batch]]
    assert len(kept) == 6
    assert not counted(map(without_time, kept)) - counted(map(without_time, wanted.all_side))
    assert not list((tmp_path / "state" / "q" / "outbox").glob("*/*.side"))


def without_time(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in TOLD_APART}


def test_late_rows_are_read_again_until_it_is_enough(spark: SparkSession, tmp_path: Path) -> None:
    """One job undisturbed; another stopped in the middle of its rounds, and its last batch replayed."""
    query = replace(TUMBLING, transform={"side_output": AGAIN})
    calm, torn = Job(tmp_path / "calm", query).feed_all(BATCHES), Job(tmp_path / "torn", query).feed_all(BATCHES[:2])
    run_together(spark, [calm], drain=True)
    finish(torn.start(spark), drain=False)
    before = torn.outcome().entries[-1]
    assert before.reinjecting == before.accounting["buffered"] > 0
    forget_commit(tmp_path / "torn" / "state" / "q" / "spark", before.batch_id)
    torn.feed(BATCHES[2])
    torn.feed(BATCHES[3])
    finish(torn.start(spark), drain=True)
    wanted = in_harness(TUMBLING, BATCHES, drain=True)
    for outcome in (calm.outcome(), torn.outcome()):
        check_rounds(outcome, wanted)


def check_rounds(outcome: Outcome, wanted: Outcome) -> None:
    assert counted(outcome.all_rows) == counted(wanted.all_rows)
    records = [record for record in outcome.all_side if record["kind"] == "late"]
    assert {record["reinjections"] for record in records} == {2}
    late = [record["original_event"] for record in wanted.all_side if record["kind"] == "late"]
    assert Counter(record["original_event"]["ts"] for record in records) == Counter(event["ts"] for event in late)
    last = outcome.entries[-1]
    assert (last.totals["in_"], last.totals["late"], last.totals["buffered"]) == (40, len(late), 0)
    assert last.sums["reinjected"] == {"late": 2 * len(late)}
    assert last.reinjecting == 0


def forget_commit(checkpoint: Path, batch: int) -> None:
    """As if the process had died before Spark committed this batch."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)
