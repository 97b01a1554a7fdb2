"""Columns that folders name, and lines of text files: both ways of reading give the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline
from windowpane.runtime.golden_spark import finish

pytestmark = pytest.mark.spark
SQL = "SELECT dt, n, v, count(*) AS c FROM %s GROUP BY tumblingwindow('dd', 1), dt, n, v"
LINES = [{"v": "a"}, {"v": "b", "dt": "own", "n": 9}]
TEXT = b"\xef\xbb\xbfone\r\ntwo\r\n\nthree\rfour\n\r"


def write_inputs(folder: Path) -> dict[str, dict[str, Any]]:
    """Streams by name; each is read in both ways."""
    for place in ("json/dt=x%201/n=3", "glob/dt=x/n=3", "base/dt=x/n=3"):
        (folder / place).mkdir(parents=True)
        (folder / place / "a.json").write_text("\n".join(map(json.dumps, LINES)), encoding="utf-8")
    (folder / "parquet" / "dt=x" / "n=__HIVE_DEFAULT_PARTITION__").mkdir(parents=True)
    rows = pa.table({"v": ["a", "b"], "dt": ["own", None]})
    pq.write_table(rows, folder / "parquet" / "dt=x" / "n=__HIVE_DEFAULT_PARTITION__" / "a.parquet")
    (folder / "text" / "dt=x" / "n=1").mkdir(parents=True)
    (folder / "text" / "dt=x" / "n=1" / "a.txt").write_bytes(TEXT)
    return {
        "json": {"format": "json", "path": "json"},
        "glob": {"format": "json", "path": "glob/dt=*/n=3"},
        "base": {"format": "json", "path": "base/dt=x"},
        "parquet": {"format": "parquet", "path": "parquet"},
        "text": {"format": "text", "path": "text"},
    }


def test_both_readers_agree(spark: SparkSession, tmp_path: Path) -> None:
    streams = {
        f"{name}_{reader}": {**stream, "schema": "v STRING, dt STRING, n INT", "scan": reader}
        for name, stream in write_inputs(tmp_path).items()
        for reader in ("columnar", "spark")
    }
    sinks = {name: MemorySink(name) for name in streams}
    settings = {
        "streams": streams,
        "options": {"trigger": "available_now", "checkpoint": "state", "shards": 1},
        "transforms": {name: {"sql": SQL % name, "sink": name} for name in streams},
        "sinks": {name: {"format": "memory"} for name in streams},
    }
    finish(Pipeline.from_dict(settings, tmp_path, sinks=sinks).start(spark), drain=True)
    found = {name: sorted(map(str, (tuple(row) for row in sink.rows))) for name, sink in sinks.items()}
    for name in write_inputs(tmp_path / "again"):
        assert found[f"{name}_columnar"] == found[f"{name}_spark"], name
    assert found["json_columnar"] == ["('x 1', 3, 'a', 1)", "('x 1', 3, 'b', 1)"]
    assert len(found["text_columnar"]) == 5
