"""Delta and Iceberg tables as streams: rows that are committed between runs count once, also if a run is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.remote.test_table_log import World
from tests.spark.jobs import KINDS, finish
from windowpane.connectors.sinks import MemorySink
from windowpane.errors import SourceError
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark
SCHEMA = "n BIGINT, k STRING, ts BIGINT"
KILLED = """
import os, signal
from windowpane.cli import main
from windowpane.connectors.files import FileSink
write = FileSink.write
def killed(self, batch):
    write(self, batch)
    if batch.batch_id == 1:
        os.kill(os.getpid(), signal.SIGKILL)
FileSink.write = killed
main()
"""
PIPELINE = """
[streams.s]
format = "{kind}"
{place}
schema = "n BIGINT, k STRING, ts BIGINT"
eventtime = {{ column = "ts", type = "unixtimestamp_s" }}
options = {{ {options} }}
[options]
eventtime = {{ enabled = true }}
checkpoint = "checkpoint"
max_future_skew = "off"
shards = 1
[transforms.t]
sql = "SELECT window_start, k, count(*) AS c, sum(n) AS s FROM s GROUP BY tumblingwindow('ss', 10), k"
sink = "out"
[sinks.out]
format = "json"
path = "out"
[spark]
master = "local[1]"
"""


def commit(world: World, number: int) -> None:
    """Ten rows, one a second, of two keys."""
    seconds = range(number * 10, number * 10 + 10)
    world.append(*seconds, k=["ab"[second % 2] for second in seconds], ts=list(seconds))


def pipeline(world: World, folder: Path) -> Path:
    options = {"maxFilesPerTrigger": "1", **world.settings.options}
    file = folder / "pipeline.toml"
    named = ", ".join(f'{name} = "{value}"' for name, value in options.items())
    named += ', table = "shop.t"' if world.kind == "iceberg" else ""
    place = f'path = "{world.settings.name}"' if world.kind == "delta" else ""
    file.write_text(PIPELINE.format(kind=world.kind, place=place, options=named))
    return file


def run(file: Path, script: str = "from windowpane.cli import main; main()") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, "run", str(file), "--drain"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_commits_are_read_once_also_after_a_kill(kind: Any, tmp_path: Path) -> None:
    world = World(kind, tmp_path)
    for number in range(3):
        commit(world, number)
    file = pipeline(world, tmp_path)
    done = run(file, KILLED)
    assert done.returncode == -signal.SIGKILL, done.stderr
    commit(world, 3)
    done = run(file)
    assert done.returncode == 0, done.stderr
    rows = [
        json.loads(line) for part in sorted((tmp_path / "out").glob("part-*")) for line in part.read_text().splitlines()
    ]
    found = {(row["window_start"][:19], row["k"]): (row["c"], row["s"]) for row in rows}
    assert len(found) == len(rows) == 8
    for number in range(4):
        seconds = range(number * 10, number * 10 + 10)
        start = f"1970-01-01T00:00:{number * 10:02}"
        for place, key in enumerate("ab"):
            assert found[start, key] == (5, sum(seconds[place::2]))


def in_process(spark: SparkSession, world: World, folder: Path, **changed: Any) -> dict[str, Any]:
    results, records = MemorySink("out"), MemorySink("dlq")
    place = {"path": world.settings.name} if world.kind == "delta" else {}
    options = {**world.settings.options, **({"table": "shop.t"} if world.kind == "iceberg" else {})}
    source = {"format": world.kind, "options": options, **place, **changed.pop("schema", {})}
    stream = source | {"eventtime": {"column": "ts", "type": "unixtimestamp_s"}} | changed.pop("stream", {})
    made = Pipeline.from_dict(
        {
            "streams": {"s": stream}, "tables": {"names": source},
            "options": {
                "eventtime": {"enabled": True}, "trigger": "available_now", "shards": 1, "max_future_skew": "off",
                "checkpoint": str(folder / "checkpoint"),
            },
            "transforms": {
                "t": {"sink": "out", "side_output": {each: {"sink": "dlq"} for each in KINDS}, "sql": changed["sql"]}
            },
            "sinks": {"out": {"format": "memory"}, "dlq": {"format": "memory"}},
        },
        sinks={"out": results, "dlq": records},
    )  # fmt: skip
    finish(made.start(spark), drain=True)
    side = [json.loads(row[0]) for rows in records._batches.values() for row in rows]
    found = [row.asDict() for rows in results._batches.values() for row in rows]
    return {"scan": made.plans[0].scan is not None, "rows": found, "side": Counter(each["reason"] for each in side)}


def test_a_join_with_a_static_table(spark: SparkSession, tmp_path: Path) -> None:
    """Stream and static table are the same table. Spark reads both."""
    world = World("delta", tmp_path)
    commit(world, 0)
    commit(world, 1)
    sql = (
        "SELECT s.k, count(*) AS c, sum(names.n) AS m FROM s JOIN names ON s.n = names.n "
        "GROUP BY tumblingwindow('ss', 100), s.k"
    )
    found = in_process(spark, world, tmp_path, sql=sql, schema={"schema": SCHEMA})
    assert not found["scan"]
    assert sorted((row["k"], row["c"], row["m"]) for row in found["rows"]) == [("a", 10, 90), ("b", 10, 100)]


def test_a_stream_without_a_schema(spark: SparkSession, tmp_path: Path) -> None:
    """It has the columns of the table, and Spark reads its rows."""
    world = World("iceberg", tmp_path)
    commit(world, 0)
    sql = "SELECT k, count(*) AS c, sum(n) AS m FROM s GROUP BY tumblingwindow('ss', 100), k"
    found = in_process(spark, world, tmp_path, sql=sql)
    assert not found["scan"]
    assert sorted((row["k"], row["c"], row["m"]) for row in found["rows"]) == [("a", 5, 20), ("b", 5, 25)]


def test_files_that_are_gone_are_error_rows(spark: SparkSession, tmp_path: Path) -> None:
    world = World("delta", tmp_path)
    commit(world, 0)
    commit(world, 1)
    next((tmp_path / "t").glob("*.parquet")).unlink()
    sql = "SELECT count(*) AS c FROM s GROUP BY tumblingwindow('ss', 100)"
    for scan in ("auto", "spark"):
        stream = {"schema": SCHEMA, "scan": scan}
        found = in_process(spark, world, tmp_path / scan, sql=sql, stream=stream)
        assert found["scan"] == (scan == "auto")
        assert [row["c"] for row in found["rows"]] == [10]
        assert found["side"] == {"decode_error": 1}


def test_a_commit_that_deletes_rows_stops_the_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    world = World("delta", tmp_path)
    commit(world, 0)
    world.delete(3)
    sql = "SELECT count(*) AS c FROM s GROUP BY tumblingwindow('ss', 100)"
    schema = {"schema": SCHEMA}
    with pytest.raises(SourceError) as refused:
        in_process(spark, world, tmp_path, sql=sql, stream=schema | {"options": {"starting_after": 0}})
    assert refused.value.code == "TABLE_CHANGED"
    assert "skip_changes" in str(refused.value.hint)
    world.append(50, k=["a"], ts=[50])
    skipping = {"starting_after": 0, "skip_changes": True}
    found = in_process(spark, world, tmp_path / "again", sql=sql, stream=schema | {"options": skipping})
    assert [row["c"] for row in found["rows"]] == [1]
