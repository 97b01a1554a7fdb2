"""Where a file sink stages a batch: the next process removes what is left, one that was followed leaves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from windowpane.connectors.files import FileSink
from windowpane.connectors.sinks import SinkBatch
from windowpane.errors import StateError

pytestmark = pytest.mark.spark


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_what_is_left_in_a_staging_folder(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(2).coalesce(1)
    batch = SinkBatch(4, lambda: frame, transform="q", run="r", rows=2, fence=3)
    older = ("_staging-q-r-000000000004-2", "_staging-q-r-000000000003-1", "_staging-q-r-000000000002")
    others = ("_staging-q-r-000000000005-4", "_staging-q-s-000000000004-2", "_staging-q.side-r-000000000004-2")
    for name in (*older, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-0.json").write_text("{}")
    sink = FileSink("files", "json", str(tmp_path), {})
    sink.write(batch)
    assert names(tmp_path) == [*sorted(others), "part-q-r-000000000004-00000.json"]

    def followed() -> None:
        if (tmp_path / "_staging-q-r-000000000006-3").exists():
            raise StateError("LEASE_LOST", "another process has taken over")

    with pytest.raises(StateError, match="taken over"):
        sink.write(replace(batch, batch_id=6, check_lease=followed))
    assert names(tmp_path) == [*sorted(others), "part-q-r-000000000004-00000.json"]

    (tmp_path / older[0]).mkdir()  # of a process that was away, and whose Spark ended before it could remove it
    sink.open(spark, identified=True)
    sink.close()
    assert names(tmp_path) == [*sorted(others), "part-q-r-000000000004-00000.json"]
