"""Pipelines and `windowpane.sql` from Python, on one Spark session: failing sinks, resuming, one's own job."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import windowpane as wp
from windowpane.config import SparkSettings
from windowpane.connectors.sinks import SinkBatch, SparkFormatSink
from windowpane.errors import ConfigError, PlanError, SinkError
from windowpane.runtime.inspection import describe_checkpoint
from windowpane.spark import overflow
from windowpane.spark.result_channel import ResultChannel
from windowpane.spark.session import create_session

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "k STRING, v BIGINT, ts STRING"
QUERY = "SELECT window_start, k, sum(v) AS total FROM bids GROUP BY tumblingwindow('ss', 10), k"
FILES = (
    [("a", 1, "00:00:01"), ("a", 2, "00:00:02"), ("b", 5, "00:00:03")],
    [("a", 10, "00:00:12"), ("a", 3, "00:00:04")],
    [("b", 7, "00:00:31"), ("a", 99, "00:00:02")],
)
TOTALS = {("a", 6), ("b", 5), ("a", 10), ("b", 7)}
"""All windows: 99 comes when [0, 10) has closed."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    session = create_session(SparkSettings(master="local[2]"), log=log)
    yield session
    session.stop()


@pytest.fixture
def bids(tmp_path: Path) -> Path:
    folder = tmp_path / "bids"
    folder.mkdir()
    for number, rows in enumerate(FILES):
        lines = [json.dumps({"k": k, "v": v, "ts": f"2024-01-01T{ts}Z"}) for k, v, ts in rows]
        path = folder / f"{number}.json"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.utime(path, (1e9 + number, 1e9 + number))
    return folder


def settings(bids: Path, **results: Any) -> dict[str, Any]:
    return {
        "streams": {
            "bids": {
                "format": "json", "path": str(bids), "schema": SCHEMA, "options": {"maxFilesPerTrigger": 1},
                "eventtime": {"column": "ts", "type": "iso8601"},
            }
        },
        "options": {
            "eventtime": {"enabled": True, "late_tolerance": "2s"}, "shards": 2, "trigger": "available_now",
            "checkpoint": "state",
        },
        "transforms": {"sums": {"sql": QUERY, "sink": "results"}},
        "sinks": {"results": {"format": "memory", "retry": {"attempts": 4, "pause": "200ms"}} | results},
    }  # fmt: skip


class Collecting:
    """A callable sink that raises at its first calls, then keeps rows by batch."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.batches: dict[int, list[tuple[str, int]]] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError("the server is away")
        self.batches[batch_id] = [(row["k"], row["total"]) for row in frame.collect()]

    @property
    def rows(self) -> list[tuple[str, int]]:
        return [row for batch_id in sorted(self.batches) for row in self.batches[batch_id]]


def run_and_drain(spark: SparkSession, given: dict[str, Any], base: Path, sinks: dict[str, wp.Sink]) -> dict[str, int]:
    running = wp.Pipeline.from_dict(given, base, sinks=sinks).start(spark)
    try:
        running.wait()
    except Exception as failed:
        raise running.fail(failed) from failed
    ended = running.drain()["sums"]
    assert ended is not None
    return ended.totals


def test_a_sink_that_fails_for_a_while_loses_nothing(
    spark: SparkSession, bids: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Collecting(failures=2)
    totals = run_and_drain(spark, settings(bids), tmp_path, {"results": wp.CallableSink("results", sink)})
    assert sorted(sink.rows) == sorted(TOTALS)
    assert (totals["in_"], totals["aggregated"], totals["late"]) == (7, 6, 1)
    assert "sink `results`" in caplog.text
    assert "the server is away" in caplog.text


def test_a_sink_that_goes_on_failing_stops_the_pipeline_which_then_resumes(
    spark: SparkSession, bids: Path, tmp_path: Path
) -> None:
    sink = Collecting(failures=1000)
    with pytest.raises(SinkError) as failed:
        run_and_drain(spark, settings(bids), tmp_path, {"results": wp.CallableSink("results", sink)})
    assert failed.value.code == "SINK_FAILED"
    assert "`results`" in failed.value.message
    assert json.loads((tmp_path / "state" / "status.json").read_text())["state"] == "failed"

    sink.failures = 0
    totals = run_and_drain(spark, settings(bids), tmp_path, {"results": wp.CallableSink("results", sink)})
    assert sorted(sink.rows) == sorted(TOTALS)
    assert totals["in_"] == 7


def test_a_folder_that_cannot_be_written_is_named(spark: SparkSession, bids: Path, tmp_path: Path) -> None:
    (tmp_path / "in_the_way").write_text("a file", encoding="utf-8")
    given = settings(bids, format="json", path="in_the_way/out")
    with pytest.raises(SinkError) as failed:
        run_and_drain(spark, given, tmp_path, {})
    assert "`results`" in failed.value.message
    assert "in_the_way/out" in failed.value.message
    ledger = tmp_path / "state" / "sums" / "ledger"
    assert not ledger.exists() or not list(ledger.iterdir()), "found before any row is read"


class Obstructing(wp.MemorySink):
    """With its first batch, a file takes the place of another sink's folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__("results")
        self.folder = folder

    def write(self, batch: SinkBatch) -> None:
        if not self.rows:
            self.folder.write_text("in the way", encoding="utf-8")
        super().write(batch)


def test_results_wait_while_a_folder_cannot_be_written(
    spark: SparkSession, bids: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its neighbour gets them at once; an end is refused; the next start delivers every result once.

    Executors write what waits, and read it again.
    """
    monkeypatch.setattr(overflow, "DRIVER_BYTES", 1)
    monkeypatch.setattr(ResultChannel, "ending_seconds", 0.5)
    given = settings(bids)
    given["sinks"]["out"] = {"format": "json", "path": "out/sums", "retry": {"attempts": 2, "pause": "10ms"}}
    given["transforms"]["sums"]["sink"] = ["results", "out"]
    neighbour = Obstructing(tmp_path / "out")
    with pytest.raises(SinkError, match="3 results of 2 batches wait since") as failed:
        run_and_drain(spark, given, tmp_path, {"results": neighbour})
    assert failed.value.code == "SINK_FAILED"
    assert sorted((row["k"], row["total"]) for row in neighbour.rows) == [("a", 6), ("a", 10), ("b", 5)]
    state = tmp_path / "state"
    waiting = json.loads((state / "status.json").read_text())["transforms"]["sums"]["sinks"]["out"]
    assert (waiting["up"], waiting["waiting_rows"], waiting["waiting_bytes"] > 0) == (False, 3, True)
    parts = state / "sums" / "results-outbox" / "out" / "parts"
    assert list(parts.iterdir())
    pipeline = wp.Pipeline.from_dict(given, tmp_path, sinks={"results": neighbour})
    checkpoint = pipeline.checkpoint(pipeline.plans[0])
    last = checkpoint.ledger.last()
    assert last is not None
    assert (last.undelivered_results, last.result_outbox, last.final) == ({"out": 3}, {"out": 3}, False)
    assert describe_checkpoint(checkpoint)["waiting_results"]["out"]["waiting_rows"] == 3

    (tmp_path / "out").unlink()
    run_and_drain(spark, given, tmp_path, {"results": neighbour})
    files = sorted((tmp_path / "out" / "sums").glob("*.json"))
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert sorted((row["k"], row["total"]) for row in rows) == sorted(TOTALS)
    assert len({path.name.split("-")[-2] for path in files}) == len(files), "each batch under its own number"
    assert describe_checkpoint(checkpoint)["waiting_results"] == {}
    assert not list(parts.parent.rglob("*.arrow"))


def test_a_static_table_without_a_declared_schema(
    spark: SparkSession, bids: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"k": ["a", "c"], "title": ["first", "third"]}), tmp_path / "names.parquet")
    given = settings(bids) | {"tables": {"names": {"format": "parquet", "path": "names.parquet"}}}
    sql = (
        "SELECT title, sum(bids.v) AS total FROM bids JOIN names ON bids.k = names.k "
        "GROUP BY tumblingwindow('ss', 10), title"
    )
    given["transforms"]["sums"]["sql"] = sql
    sink = wp.MemorySink("results")
    totals = run_and_drain(spark, given, tmp_path, {"results": sink})
    assert sorted((row["title"], row["total"]) for row in sink.rows) == [("first", 6), ("first", 10)]
    assert (totals["in_"], totals["unmatched"], totals["late"]) == (7, 2, 1)

    given["transforms"]["sums"]["sql"] = sql.replace("title", "titel")
    given["options"]["checkpoint"] = "another"
    with pytest.raises(Exception, match="titel"):
        run_and_drain(spark, given, tmp_path, {"results": sink})
    assert "stacktrace" not in "".join(capfd.readouterr()), "PySpark prints what it raises, unless it is told not to"


def test_sql_in_ones_own_job(spark: SparkSession, bids: Path, tmp_path: Path) -> None:
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(bids))
    results = wp.sql(
        spark,
        QUERY,
        streams={"bids": {"frame": stream, "eventtime": {"column": "ts", "type": "iso8601"}}},
        options={"eventtime": {"enabled": True, "late_tolerance": "2s"}},
        originals=True,
    )
    assert results.columns == ["window_start", "k", "total"]
    rows, dlq = Collecting(0), list[dict[str, Any]]()
    write(results, tmp_path / "main", rows)
    assert sorted(rows.rows) == [("a", 6), ("a", 10), ("b", 5)], "the last window is still open"

    write(results.side_output, tmp_path / "dlq", lambda frame, _: dlq.extend(map(as_record, frame.collect())))
    assert [(record["kind"], record["original_event"]["v"]) for record in dlq] == [("late", 99)]


def write(frame: DataFrame, checkpoint: Path, function: Any) -> None:
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(function).start().awaitTermination()


def as_record(row: Any) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(row["value"])
    return record


def test_sql_refuses_what_it_cannot_do(spark: SparkSession, bids: Path) -> None:
    stream = spark.readStream.schema(SCHEMA).json(str(bids))
    with pytest.raises(PlanError) as refused:
        wp.sql(spark, f"{QUERY} ORDER BY total LIMIT 1", streams={"bids": stream})
    assert refused.value.code == "ORDER_IN_DATAFRAME"
    with pytest.raises(ConfigError) as mistaken:
        wp.sql(spark, QUERY, streams={"bids": spark.read.schema(SCHEMA).json(str(bids))})
    assert mistaken.value.code == "NOT_A_STREAM"
    with pytest.raises(ConfigError) as ignored:
        wp.sql(spark, QUERY, streams={"bids": stream}, options={"max_side_backlog": 5})
    assert (ignored.value.code, ignored.value.key) == ("NOT_IN_DATAFRAME", "options.max_side_backlog")


def test_a_format_that_spark_does_not_know_is_found_at_the_start(
    spark: SparkSession, bids: Path, tmp_path: Path
) -> None:
    given = settings(bids)
    given["sinks"]["results"] = {"format": "no_such_format"}
    with pytest.raises(wp.WindowpaneError) as refused:
        wp.Pipeline.from_dict(given, base_dir=tmp_path).start(spark)
    assert (refused.value.code, refused.value.exit_code) == ("UNKNOWN_FORMAT", 2)
    for known in ("orc", "noop", "text"):
        SparkFormatSink("results", known, None, {}).open(spark, identified=False)
