"""A static table with `refresh` is read again while the query runs; a batch that is replayed reads the same version."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.torture import FIRST_FILE_TIME, kill_at, run_to_end
from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import load_pipeline, parse_pipeline
from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline
from windowpane.runtime.location import pipeline_store
from windowpane.runtime.refreshing import StaticTables

pytestmark = pytest.mark.spark


def settings(refresh: str) -> dict[str, Any]:
    return {
        "streams": {"s": {"format": "json", "path": "in", "create": True, "schema": "k INT"}},
        "tables": {"names": {"format": "json", "path": "names", "schema": "k INT, name STRING", "refresh": refresh}},
        "options": {"checkpoint": "state", "shards": 1},
        "transforms": {"t": {"sql": "SELECT s.k AS k, name FROM s JOIN names n ON s.k = n.k", "sink": "out"}},
        "sinks": {"out": {"format": "json", "path": "unused"}},
    }


def write(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".tmp").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path.with_suffix(".tmp").rename(path)


def wait_for(sink: MemorySink, rows: int) -> list[Any]:
    deadline = time.monotonic() + 120
    while len(sink.rows) < rows and time.monotonic() < deadline:
        time.sleep(0.1)
    return [row["name"] for row in sink.rows]


def test_a_running_query_reads_the_table_again(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "names" / "a.json", {"k": 1, "name": "one"})
    write(tmp_path / "in" / "1.json", {"k": 1})
    config, sink = parse_pipeline(settings("1s"), tmp_path), MemorySink("out")
    running = Pipeline.from_dict(settings("1s"), tmp_path, sinks={"out": sink}).start(spark)
    try:
        assert wait_for(sink, 1) == ["one"]
        write(tmp_path / "names" / "a.json", {"k": 1, "name": "uno"})
        time.sleep(1.1)
        write(tmp_path / "in" / "2.json", {"k": 1})
        assert wait_for(sink, 2) == ["one", "uno"]
    finally:
        running.stop()
    checkpoint = Checkpoint(pipeline_store(config).below("t"))
    used = [checkpoint.ledger.read(number) for number in checkpoint.ledger.batch_ids()]
    assert [entry.tables for entry in used if entry and entry.results] == [{"names": 1}, {"names": 2}]
    assert len(checkpoint.tables.of("names")) == 2
    # Spark has committed batches 0 and 1; a replay of batch 1 would read version 2, as it has.
    opened = StaticTables(spark, config, checkpoint, clock=lambda: 0.0)
    write(tmp_path / "names" / "a.json", {"k": 1, "name": "eins"})
    assert [row["name"] for row in opened.open("names").collect()] == ["uno"], "it is not due"
    # A start long after that reads the table again, because batch 2 has not begun.
    opened = StaticTables(spark, config, checkpoint, clock=lambda: time.time() + 5)
    assert [row["name"] for row in opened.open("names").collect()] == ["eins"]
    assert checkpoint.tables.of("names")[-1].from_batch == checkpoint.log.last_committed() + 1
    for batch_id in (7, 8, 9):
        opened._opened["names"] = 0
        assert opened.refresh(batch_id)
    assert [each.from_batch for each in checkpoint.tables.of("names")] == [8, 9]
    folders = [name for name in checkpoint.store.below("tables").names() if not name.endswith(".json")]
    assert len(folders) == 2


PIPELINE = """
[streams.s]
format = "json"
path = "in"
schema = "k INT, file INT"
options = { maxFilesPerTrigger = 1 }
[tables.names]
format = "json"
path = "names"
schema = "k INT, name STRING"
refresh = "1s"
[options]
checkpoint = "state"
trigger = "available_now"
shards = 1
[transforms.q]
sql = "SELECT file, name FROM s JOIN names n ON s.k = n.k"
sink = "out"
[sinks.out]
format = "json"
path = "out"
[spark]
master = "local[2]"
"""


def test_a_killed_batch_is_replayed_with_the_version_that_it_began_with(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    write(tmp_path / "names" / "a.json", {"k": 1, "name": "one"})
    for file in range(3):
        path = tmp_path / "in" / f"{file}.json"
        write(path, {"k": 1, "file": file})
        os.utime(path, (FIRST_FILE_TIME + file,) * 2)
    assert kill_at(tmp_path, 0, 0.1, whole_group=True)
    assert not (tmp_path / "state" / "q" / "spark" / "commits" / "0").exists()
    write(tmp_path / "names" / "a.json", {"k": 1, "name": "two"})
    run_to_end(tmp_path)
    found = [json.loads(line) for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
    assert sorted((row["file"], row["name"]) for row in found) == [(0, "one"), (1, "two"), (2, "two")]
    ledger = Checkpoint(pipeline_store(load_pipeline(tmp_path / "pipeline.toml")).below("q")).ledger
    used = [entry.tables["names"] for number in ledger.batch_ids() if (entry := ledger.read(number)) and entry.results]
    assert used[0] == 1
    assert used[1] > 1


def test_a_table_that_cannot_be_read_is_used_as_it_was(
    tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "names" / "a.json", {"k": 1, "name": "one"})
    config = parse_pipeline(settings("10m"), tmp_path)
    checkpoint = Checkpoint(pipeline_store(config).below("t"))
    tables = StaticTables(spark, config, checkpoint)
    assert tables.open("names").count() == 1
    assert not tables.refresh(3), "it is not due"
    (tmp_path / "names" / "a.json").unlink()
    (tmp_path / "names").rmdir()
    tables._opened["names"] = 0
    assert not tables.refresh(3)
    assert "cannot be read again" in caplog.text
    assert tables.used(3) == {"names": 1}
