"""What every micro-batch would pay for before it does anything: each test is about one thing that it does not."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Query, assert_same, in_harness
from windowpane.spark import driver_calls
from windowpane.spark.driver_calls import DriverCalls
from windowpane.spark.session import prepare_session

pytestmark = pytest.mark.spark

SQL = "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 2), k"
BATCHES = [[{"ts": 1000 * second, "k": second % 3} for second in range(4 * n, 4 * n + 4)] for n in range(3)]


def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})


def test_workers_do_not_collect_garbage_among_modules(spark: SparkSession, tmp_path: Path) -> None:
    """A worker of the fold stage, which Spark uses again for any other function."""
    query = Query(SQL, {"s": "ts BIGINT, k BIGINT"})
    assert_same(Job(tmp_path, query).feed_all(BATCHES).run(spark, drain=True), in_harness(query, BATCHES, drain=True))
    counts = [row["frozen"] for row in spark.range(0, 2, 1, 2).mapInArrow(frozen, "frozen BIGINT").collect()]
    assert max(counts) > 10_000


def test_hadoop_settings_are_sent_without_their_origins(spark: SparkSession) -> None:
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    before = hadoop.size()
    prepare_session(spark, 2)
    assert hadoop.get("fs.trash.interval") is not None
    assert hadoop.getPropertySources("fs.trash.interval") is None
    assert hadoop.size() == before


def test_a_folder_is_listed_as_hadoop_lists_it_but_by_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("b.json", "a:b ü%20.json", ".hidden", "folder/inside"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    os.utime(tmp_path / "b.json", (-5, -5))
    (tmp_path / "link").symlink_to("b.json")
    (tmp_path / "gone").symlink_to("nowhere")
    prepare_session(spark, 2)
    jvm: Any = spark._jvm
    systems, folder = jvm.org.apache.hadoop.fs, jvm.org.apache.hadoop.fs.Path(str(tmp_path))
    hadoop, root = spark.sparkContext._jsc.hadoopConfiguration(), jvm.java.net.URI("file:///")
    theirs = systems.RawLocalFileSystem()
    theirs.initialize(root, hadoop)

    def described(files: Any) -> list[tuple[object, ...]]:
        listed = files.listStatus(folder)
        return [(s.getPath().toUri().toString(), s.getLen(), s.isDirectory(), s.getModificationTime(), s.getBlockSize())
                for s in listed]  # fmt: skip

    found = described(systems.FileSystem.get(root, hadoop))
    assert found == sorted(described(theirs))
    assert len(found) == 5


@pytest.mark.parametrize("by_call", [True, False])
def test_collected_rows_come_by_call_or_by_socket(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, by_call: bool
) -> None:
    monkeypatch.setattr(driver_calls, "CALL_BYTES", 1_000_000 if by_call else 10)
    rows = spark.range(0, 4, 1, 2).selectExpr(
        "id", "CAST(repeat('x', CAST(id AS INT)) AS BINARY) AS payload", "concat('ä', id) AS kind"
    )
    assert DriverCalls(spark).collect(rows) == [("ä0", b""), ("ä1", b"x"), ("ä2", b"xx"), ("ä3", b"xxx")]
